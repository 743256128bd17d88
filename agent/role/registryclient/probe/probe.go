// Package probe asks a container registry whether it is there and takes a login, by
// the Distribution API's GET /v2/, its basic and its token authentication. It trusts
// and asks as Docker does, and changes nothing.
//
// Where a password goes: to the server itself, and to the token service that this
// server names (realm), wherever that is, for such is the protocol and many registries
// have theirs on another host. Never does it follow a redirect to another origin, and
// never does it leave https for http.
package probe

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Target is a registry, and what this machine knows about the way to it.
type Target struct {
	// Server is as in image names: host or host:port, an IPv6 address in brackets.
	Server string
	Scheme api.RegistryConnectionScheme
	// Username is empty if there is no login.
	Username, Password string
	// CA is trusted besides the system's roots, PEM; may be empty.
	CA []byte
	// Hosts are the names, in lower case, that lead to an address of /etc/hosts.
	Hosts map[string]netip.Addr
	// Proxy is the document's, nil for none.
	Proxy *api.ProxySection
	// Limit is how long all of it may take; 0 = 10 seconds.
	Limit time.Duration
}

// Answer is what a registry that is well says.
type Answer struct {
	// AsksLogin says that it wants a login, and that none is given.
	AsksLogin bool
	// Notes are what is odd and stands in no one's way.
	Notes []string
}

// Check asks the registry. Errors are a *converge.Waiting (Unreachable,
// CertificateRejected by its dates) or a *converge.Terminal (Unauthorized,
// CertificateRejected); their messages begin with the server and hold neither password nor token.
func Check(ctx context.Context, t Target) (Answer, error) {
	if t.Limit == 0 {
		t.Limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, t.Limit)
	defer cancel()
	s := newSession(t)
	defer s.client.CloseIdleConnections()
	asks, err := s.check(ctx)
	_, note := t.proxyFor(s.base)
	if err != nil {
		return Answer{}, s.explain(err, note)
	}
	a := Answer{AsksLogin: asks}
	if note != "" {
		a.Notes = append(a.Notes, t.Server+": "+note)
	}
	return a, nil
}

// check says whether the registry asks for a login that is not given.
func (s *session) check(ctx context.Context) (asks bool, err error) {
	first, err := s.get(ctx, s.base, nil)
	if err != nil {
		return false, err
	}
	if first.status != http.StatusUnauthorized {
		return false, s.well(first)
	}
	offered := challenges(first.header)
	if len(offered) == 0 && !first.versioned() {
		return false, s.noRegistry(first)
	}
	if s.Username == "" {
		return true, nil
	}
	if !sameOrigin(s.base, first.url) {
		return false, converge.Wait(api.ReasonUnreachable, "%s redirects to %s, which asks for a login; a password goes to no other host: give that one as server", s.Server, origin(first.url))
	}
	return false, s.login(ctx, offered)
}

// well is nil for the answer of a registry that lets us in.
func (s *session) well(a *answer) error {
	if a.status == http.StatusOK && a.isRegistry() {
		return nil
	}
	return s.noRegistry(a)
}

func (s *session) noRegistry(a *answer) error {
	where := ""
	if !sameOrigin(s.base, a.url) {
		where = " at " + origin(a.url) + ", to which it redirects,"
	}
	what := fmt.Sprintf("%s%s answers GET /v2/ as no registry does: %s", s.Server, where, a.summary(s.clean))
	if hint := s.wrongScheme(a); hint != "" {
		what += "; " + hint
	}
	return converge.Wait(api.ReasonUnreachable, "%s", what)
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
