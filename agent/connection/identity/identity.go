// Package identity finds out which server this machine is: the Nova server id,
// which is its node id. What it finds is a claim that the controller judges, not
// a proof.
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

// The names of the sources, in the order in which they are asked.
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
	// Root is "/" but in tests.
	Root string
	// MetadataURL is MetadataURL but in tests.
	MetadataURL string
	// client speaks to the metadata service: no proxy, no redirect.
	client *http.Client
}

// This is the machine that the process runs on.
func This() *Machine { return At("/", MetadataURL) }

// At is a machine whose files and metadata service are elsewhere.
func At(root, metadataURL string) *Machine {
	return &Machine{Root: root, MetadataURL: metadataURL, client: &http.Client{
		Timeout:       3 * time.Second, // on the link itself; where there is none, nobody answers
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Claim is an id and the source that it comes from.
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

// Find asks one source after the other and returns the first id, a UUID in lower
// case. The error is *NotFound, with what every source answered.
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

// Ask asks one source by its name.
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

// ProductUUID is the DMI product UUID, "" where there is none or it is one that
// many machines share.
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

// canonical is the id in lower case. Placeholders of firmware that many machines
// carry are refused.
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
