// Package probe checks whether a container registry answers and accepts a login. It uses
// the Distribution API's GET /v2/ with basic and token authentication. It trusts the same
// certificates as Docker and sends the same requests, and changes nothing.
//
// A password goes to the server itself, and to the token service that this server names
// (realm). That may be on another host: the protocol allows it, and many registries use it.
// A password never follows a redirect to another origin, and never goes from https to http.
package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Target is a registry, and what this machine needs to reach it.
type Target struct {
	// Server is as in image names: host or host:port, an IPv6 address in brackets.
	Server string
	Scheme api.RegistryConnectionScheme
	// Username is empty if there is no login.
	Username, Password string
	// CA is trusted in addition to the system's roots, PEM; may be empty.
	CA []byte
	// Trust is what the operator of this machine adds.
	Trust Trust
	// Hosts are the names, in lower case, that have an address in /etc/hosts.
	Hosts map[string]netip.Addr
	// Proxy is the proxy of the document, nil for none.
	Proxy *api.ProxySection
	// Limit is how long the whole check may take; 0 = 10 seconds.
	Limit time.Duration
}

// Trust is what a machine's own files say about a registry: further CAs, PEM, and client
// certificates.
type Trust struct {
	CAs    []byte
	Client []tls.Certificate
}

// Endpoint is the host that serves the images of a server: Docker and containerd ask another
// one for those of docker.io, which serves none itself.
func Endpoint(server string) string {
	if server == "docker.io" {
		return "registry-1.docker.io"
	}
	return server
}

// Answer describes a registry that works.
type Answer struct {
	// AsksLogin says that the registry asks for a login and none is given.
	AsksLogin bool
	// Untried says that a login is given and the registry asks for none.
	Untried bool
	// TokenCA is why a token service's certificate is not trusted by the system's CAs alone, ""
	// if it is or if there is none.
	TokenCA string
	// Notes are warnings.
	Notes []string
}

// Check asks the registry. Errors are a *converge.Waiting (Unreachable, or
// CertificateRejected because of dates) or a *converge.Terminal (Unauthorized,
// CertificateRejected). Their messages begin with the server and contain neither password nor
// token.
func Check(ctx context.Context, t Target) (Answer, error) {
	if t.Limit == 0 {
		t.Limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, t.Limit)
	defer cancel()
	s := newSession(t)
	defer s.client.CloseIdleConnections()
	a, err := s.check(ctx)
	a.TokenCA = s.tokenCA
	proxy, note := t.proxyFor(s.base)
	if err != nil {
		return Answer{}, s.explain(err, note)
	}
	switch {
	case note != "":
		a.Notes = append(a.Notes, t.Server+": "+note)
	case proxy != nil:
		a.Notes = append(a.Notes, t.Server+": asked through the proxy of the parameters; the engine needs it in its own environment, which the agent does not change")
	}
	return a, nil
}

// check asks the registry without a login, and tries the login where the registry asks for it.
func (s *session) check(ctx context.Context) (Answer, error) {
	first, err := s.get(ctx, s.base, nil)
	if err != nil {
		return Answer{}, err
	}
	if first.status != http.StatusUnauthorized {
		if err := s.checkAnswer(first); err != nil || s.Username == "" {
			return Answer{}, err
		}
		tried, err := s.tryAtCatalog(ctx)
		return Answer{Untried: !tried}, err
	}
	offered := challenges(first.header)
	if len(offered) == 0 && !first.versioned() {
		return Answer{}, s.notRegistry(first)
	}
	if s.Username == "" {
		return Answer{AsksLogin: true}, nil
	}
	if !sameOrigin(s.base, first.url) {
		return Answer{}, converge.Wait(api.ReasonUnreachable, "%s redirects to %s, which asks for a login; the agent sends a password to no other host: give that one as server", s.Server, origin(first.url))
	}
	return Answer{}, s.login(ctx, offered)
}

// checkAnswer returns nil if a registry grants access with this answer.
func (s *session) checkAnswer(a *answer) error {
	if a.status == http.StatusOK && a.isRegistry() {
		return nil
	}
	return s.notRegistry(a)
}

func (s *session) notRegistry(a *answer) error {
	where := ""
	if !sameOrigin(s.base, a.url) {
		where = " (redirected to " + origin(a.url) + ")"
	}
	what := fmt.Sprintf("%s%s does not answer GET /v2/ like a registry: %s", s.Server, where, a.summary(s.clean))
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
