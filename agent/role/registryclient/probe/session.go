package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// maxRedirects is how many redirects a request without a password follows.
const maxRedirects = 5

// session sends the requests to one registry.
type session struct {
	Target
	base   *url.URL
	client *http.Client
	// secrets are what no message may repeat: the login, and the tokens received.
	secrets []string
	// tokenCA is Answer.TokenCA.
	tokenCA string
}

func newSession(t Target) *session {
	s := &session{
		Target: t, base: &url.URL{Scheme: string(t.Scheme), Host: Endpoint(t.Server), Path: "/v2/"},
	}
	if t.Username != "" || t.Password != "" {
		s.secrets = []string{base64.StdEncoding.EncodeToString([]byte(t.Username + ":" + t.Password)), t.Password}
	}
	s.client = &http.Client{
		CheckRedirect: redirect,
		Transport: &http.Transport{
			Proxy:       func(r *http.Request) (*url.URL, error) { u, _ := t.proxyFor(r.URL); return u, nil },
			DialContext: t.dial,
			// As in Docker: the system's roots, and what this server has.
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots(t.CA, t.Trust.CAs), Certificates: t.Trust.Client},
			MaxResponseHeaderBytes: 32 << 10,
			DisableCompression:     true, // maxBody bounds what is sent
			IdleConnTimeout:        time.Second,
		},
	}
	return s
}

func roots(cas ...[]byte) *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, ca := range cas {
		pool.AppendCertsFromPEM(ca)
	}
	return pool
}

// redirect follows no redirect that would take a password to another origin.
func redirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	withPassword := first.Header.Get("Authorization") != ""
	switch {
	case len(via) > maxRedirects,
		withPassword && !sameOrigin(first.URL, next.URL),
		via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https":
		return http.ErrUseLastResponse
	}
	return nil
}

// dial connects to the address that /etc/hosts has, or will have after it is written.
func (t Target) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if a, ok := t.Hosts[strings.ToLower(host)]; ok {
		address = net.JoinHostPort(a.String(), port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// unusable replaces a proxy that cannot be used, to find out whether it applies.
const unusable = "http://unusable.invalid"

// proxyFor is the proxy for a URL, nil for none, by the rules of Docker and containerd for
// HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A value that is no address of a proxy is ignored,
// with a note if it would apply.
func (t Target) proxyFor(u *url.URL) (*url.URL, string) {
	if t.Proxy == nil {
		return nil, ""
	}
	c := httpproxy.Config{HTTPProxy: usable(t.Proxy.HTTP), HTTPSProxy: usable(t.Proxy.HTTPS), NoProxy: t.Proxy.NoProxy}
	proxy, err := c.ProxyFunc()(u)
	if err != nil || proxy != nil && proxy.String() == unusable {
		return nil, "its proxy (" + u.Scheme + ") is no usable address, so the agent asked without it; fix proxy, or list the server in no_proxy"
	}
	return proxy, ""
}

func usable(value string) string {
	if value == "" {
		return ""
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" {
		return unusable
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return value
	}
	return unusable
}

// get sends one request, with a password or token if authorize sets one.
func (s *session) get(ctx context.Context, u *url.URL, authorize func(*http.Request)) (*answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "nodehitch-agent")
	if authorize != nil {
		authorize(r)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		var wrapped *url.Error // repeats the URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		if !sameOrigin(s.base, u) {
			err = fmt.Errorf("its token service %s: %w", origin(u), err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	return readAnswer(resp)
}
