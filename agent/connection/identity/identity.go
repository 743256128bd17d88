// Package identity determines this machine's Nova server id, which is its node id. The
// result is a claim that the controller checks, not a proof.
package identity

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The names of the sources. Find tries them in its own order.
const (
	CloudInit       = "cloud-init"
	ConfigDrive     = "config drive"
	MetadataService = "metadata service"
	DMI             = "DMI"
)

// MetadataURL is where OpenStack's metadata service answers on every network.
const MetadataURL = "http://169.254.169.254/openstack/latest/meta_data.json"

// Machine is where the sources of a machine are.
type Machine struct {
	// Root is "/" except in tests.
	Root string
	// MetadataURL is the constant MetadataURL except in tests.
	MetadataURL string
	// client calls the metadata service: no proxy, no redirect.
	client *http.Client
}

// This is the machine that the process runs on.
func This() *Machine { return At("/", MetadataURL) }

// At is a machine whose files and metadata service are elsewhere.
func At(root, metadataURL string) *Machine {
	return &Machine{Root: root, MetadataURL: metadataURL, client: &http.Client{
		Timeout:       3 * time.Second, // the service is link-local: it answers quickly or does not exist
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Claim is an id and its source.
type Claim struct {
	ID     string
	Source string
}

// NotFound says why no source gave an id.
type NotFound struct {
	// Failures, one line a source, in order.
	Failures []string
}

func (e *NotFound) Error() string {
	return "this machine's server id was not found, so it cannot enroll: expected a UUID from one of\n  " +
		strings.Join(e.Failures, "\n  ")
}

// Find tries the sources in order and returns the first id, a UUID in lower case; what a later
// source would say is not compared. The error is *NotFound with the failure of every source.
func (m *Machine) Find(ctx context.Context) (Claim, error) {
	var failures []string
	for _, source := range []string{CloudInit, ConfigDrive, MetadataService, DMI} {
		id, err := m.Ask(ctx, source)
		if err == nil {
			return Claim{ID: id, Source: source}, nil
		}
		failures = append(failures, fmt.Sprintf("%s: %v", source, err))
	}
	return Claim{}, &NotFound{Failures: failures}
}

// Ask tries one source by its name.
func (m *Machine) Ask(ctx context.Context, source string) (string, error) {
	var (
		id  string
		err error
	)
	switch source {
	case CloudInit:
		id, err = m.cloudInit()
	case ConfigDrive:
		id, err = m.configDrive()
	case MetadataService:
		id, err = m.metadata(ctx)
	case DMI:
		id, err = m.dmi()
	default:
		err = fmt.Errorf("no such source")
	}
	if err != nil {
		return "", err
	}
	return canonical(id)
}

// ProductUUID is the DMI product UUID, "" if there is none or many machines share it.
func (m *Machine) ProductUUID() string {
	id, err := m.dmi()
	if err == nil {
		id, err = canonical(id)
	}
	if err != nil {
		return ""
	}
	return id
}

// canonical is the id in lower case. It refuses placeholders that many firmwares have.
func canonical(id string) (string, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || len(id) != 36 {
		return "", fmt.Errorf("found %.60q, which is no UUID", id)
	}
	switch s := parsed.String(); s {
	case uuid.Nil.String(), uuid.Max.String(), "03000200-0400-0500-0006-000700080009":
		return "", fmt.Errorf("found %s, a placeholder that many machines have", s)
	default:
		return s, nil
	}
}

func (m *Machine) path(name string) string { return filepath.Join(m.Root, name) }
