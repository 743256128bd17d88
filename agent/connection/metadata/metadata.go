// Package metadata reads from the machine's own metadata service what nobody but this
// machine is shown: the nonce by which it proves to the controller which server it is.
package metadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Where OpenStack's metadata service answers: on every network by IPv4, and where
// Neutron is of 2020 or later by IPv6, on the link of an interface.
const (
	addressIPv4 = "169.254.169.254"
	addressIPv6 = "fe80::a9fe:a9fe"
	path        = "/openstack/latest/meta_data.json"
)

// maxAnswer bounds what is read of an answer. A server's own items are 128 by default,
// of 255 characters each.
const maxAnswer = 1 << 20

// The service is on the link itself, so a connection is there at once or not at all;
// its answer comes from Nova, which takes its time.
const (
	connectLimit = 2 * time.Second
	answerLimit  = 10 * time.Second
)

// Service is the metadata service. It is safe for concurrent use.
type Service struct {
	bases  func() []string
	client *http.Client

	mu   sync.Mutex
	last string // the base that answered last
}

// This is the service of the machine that the process runs on.
func This() *Service { return newService(addresses) }

// At is a service that answers below another URL, http://host[:port]: for tests.
func At(base string) *Service { return newService(func() []string { return []string{base} }) }

func newService(bases func() []string) *Service {
	return &Service{bases: bases, client: &http.Client{
		Timeout: answerLimit,
		Transport: &http.Transport{
			Proxy:             nil, // a proxy would be shown the metadata of its own machine
			DialContext:       (&net.Dialer{Timeout: connectLimit}).DialContext,
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// addresses are the bases to ask, in order. An interface without a link-local address
// has no IPv6.
func addresses() []string {
	all := []string{"http://" + addressIPv4}
	interfaces, _ := net.Interfaces() // without them there is the first
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		own, _ := i.Addrs()
		if slices.ContainsFunc(own, linkLocalIPv6) {
			all = append(all, "http://["+addressIPv6+"%25"+i.Name+"]")
		}
	}
	return all
}

func linkLocalIPv6(a net.Addr) bool {
	n, ok := a.(*net.IPNet)
	return ok && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast()
}

// read asks one address after the other, the one that answered last first, and returns
// the first answer and where it came from. Its error has what came of each.
func (s *Service) read(ctx context.Context) (content []byte, url string, err error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	bases := s.bases()
	slices.SortStableFunc(bases, func(a, b string) int {
		switch {
		case a == last && b != last:
			return -1
		case b == last && a != last:
			return 1
		}
		return 0
	})
	var failures []error
	for _, base := range bases {
		content, err := s.get(ctx, base+path)
		if err == nil {
			s.mu.Lock()
			s.last = base
			s.mu.Unlock()
			return content, base + path, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, "", errors.Join(failures...)
}

func (s *Service) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err // it names the URL
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", url, err)
	case len(content) > maxAnswer:
		return nil, fmt.Errorf("%s answers more than %d bytes", url, maxAnswer)
	}
	return content, nil
}

// oneLine is an error's text as a status shows it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
