// Package metadata reads the nonce that only this machine can read, from its own
// metadata service. It proves to the controller which server this is.
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

// The addresses of OpenStack's metadata service: IPv4 on every network, link-local IPv6
// with Neutron of 2020 or later.
const (
	addressIPv4 = "169.254.169.254"
	addressIPv6 = "fe80::a9fe:a9fe"
	path        = "/openstack/latest/meta_data.json"
)

// maxAnswer bounds an answer. By default a server has up to 128 items of 255 characters.
const maxAnswer = 1 << 20

// The service is link-local, so a connection succeeds at once or not at all. Its answer
// comes from Nova and can take longer.
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

// This is this machine's service.
func This() *Service { return newService(addresses) }

// At is a service at another URL, http://host[:port], for tests.
func At(base string) *Service { return newService(func() []string { return []string{base} }) }

func newService(bases func() []string) *Service {
	return &Service{bases: bases, client: &http.Client{
		Timeout: answerLimit,
		Transport: &http.Transport{
			Proxy:             nil, // a proxy would get its own machine's metadata
			DialContext:       (&net.Dialer{Timeout: connectLimit}).DialContext,
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// addresses are the base URLs to try, in order: IPv4, then each interface with a
// link-local IPv6 address.
func addresses() []string {
	all := []string{"http://" + addressIPv4}
	interfaces, _ := net.Interfaces() // on an error only IPv4 is tried
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

// read tries the addresses, the one that answered last first, and returns the first
// answer and its URL. The error has the failure of each.
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
		return nil, err // the error names the URL
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

// oneLine is an error's text in one line, for the status.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
