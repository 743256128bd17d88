package registryclient

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/probe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// connection is a registry of the document, and the result of its probe.
type connection struct {
	api.RegistryConnection
	target probe.Target
	// trust is what the operator's own files add to it, untrusted why they cannot be used.
	// onlyContainerd are the CAs among them that Docker, which is in use, does not read.
	trust          trust
	untrusted      error
	onlyContainerd []string
	// probed says that answer and err are set. A registry is not probed as long as its CA is
	// not on this machine.
	probed bool
	answer probe.Answer
	err    error
}

func connectionsOf(desired *api.NodeConfig) []*connection {
	hosts := map[string]netip.Addr{}
	var all []*connection
	for _, r := range desired.Registries {
		if h := r.HostsEntry; h != nil {
			for _, name := range h.Names {
				address, err := netip.ParseAddr(h.Address)
				if _, given := hosts[strings.ToLower(name)]; err == nil && !given { // hosts(5): the first counts
					hosts[strings.ToLower(name)] = address
				}
			}
		}
		all = append(all, &connection{RegistryConnection: r, target: probe.Target{
			Server: r.Server, Scheme: r.Scheme, Username: r.Username, Password: r.Password, Hosts: hosts, Proxy: desired.Proxy,
		}})
	}
	return all
}

// ca is the CA that the connection needs, nil for none.
func (c *connection) ca() *api.FileReference {
	if c.Scheme != api.RegistryHTTPS {
		return nil
	}
	return c.CACertificate
}

// maxProbes is how many registries are probed at a time.
const maxProbes = 8

// probe probes all registries whose CA is on this machine.
func (s *step) probe(ctx context.Context, connections []*connection) {
	s.refusals.keep(connections)
	var wait sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for _, c := range connections {
		if ref := c.ca(); ref != nil {
			if c.target.CA = s.certificate(c.Server, *ref); c.target.CA == nil {
				continue
			}
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			s.probeOne(ctx, c)
		})
	}
	wait.Wait()
}

// probeOne probes one registry, unless it has refused this login recently.
func (s *step) probeOne(ctx context.Context, c *connection) {
	c.probed = true
	if c.err = s.refusals.recent(c, s.Now()); c.err != nil {
		return
	}
	c.target.Limit = s.ProbeLimit
	c.answer, c.err = probe.Check(ctx, c.target)
	var terminal *converge.Terminal
	if errors.As(c.err, &terminal) && terminal.Reason == api.ReasonCertificateRejected && len(c.onlyContainerd) > 0 {
		c.err = converge.Fail(terminal.Reason, "%s; containerd reads %s, but Docker on this machine does not: put it into %s too", terminal.Message,
			strings.Join(c.onlyContainerd, ", "), filepath.Join(dockerCertificates, containerdconf.DirectoryName(c.Server)))
	}
	s.refusals.record(c, s.Now())
}

// retryRefused is how long a refused login is not sent again, because registries and the
// directories behind them lock accounts after a few failures.
const retryRefused = 10 * time.Minute

// refusals are the refused logins. The agent forgets them when it ends or the document no
// longer has them: an operator who adds a login again wants it to be tried.
type refusals struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]refusal
}

type refusal struct {
	err   error
	until time.Time
}

// key identifies a login without containing it.
func (c *connection) key() [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join([]string{string(c.Scheme), c.Server, c.Username, c.Password}, "\x00")))
}

func (r *refusals) recent(c *connection, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[c.key()]; ok && now.Before(known.until) {
		return known.err
	}
	return nil
}

// keep forgets the refusals of logins that are not among the connections.
func (r *refusals) keep(connections []*connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(key [sha256.Size]byte, _ refusal) bool {
		return !slices.ContainsFunc(connections, func(c *connection) bool { return c.key() == key })
	})
}

func (r *refusals) record(c *connection, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, known := range r.known {
		if !now.Before(known.until) {
			delete(r.known, key)
		}
	}
	var terminal *converge.Terminal
	if !errors.As(c.err, &terminal) || terminal.Reason != api.ReasonUnauthorized {
		return
	}
	if r.known == nil {
		r.known = map[[sha256.Size]byte]refusal{}
	}
	r.known[c.key()] = refusal{c.err, now.Add(retryRefused)}
}

// severity orders reasons: those that need an operator come first.
var severity = []api.Reason{
	api.ReasonUnauthorized, api.ReasonCertificateRejected, api.ReasonEngineConfigInvalid, api.ReasonLegacyRegistryConfig,
	api.ReasonEngineNotRunning, api.ReasonFileUnavailable, api.ReasonUnreachable,
}

// bySeverity puts first the problem whose reason the condition gets.
func bySeverity(problems []error) []error {
	rank := func(err error) int {
		var terminal *converge.Terminal
		var waiting *converge.Waiting
		switch {
		case errors.As(err, &terminal):
			return slices.Index(severity, terminal.Reason) - len(severity)
		case errors.As(err, &waiting):
			return slices.Index(severity, waiting.Reason)
		}
		return len(severity)
	}
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, func(a, b error) int { return rank(a) - rank(b) })
	return problems
}
