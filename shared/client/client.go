package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nodehitch/nodehitch/shared/version"
)

// DefaultSocket is where a controller listens for root of its own machine.
const DefaultSocket = "/run/nodehitch/controller.sock"

// Options are the controller's address and the caller's credentials.
type Options struct {
	// BaseURL is https://host[:port], without a path. The server's certificate must
	// be for this host. Ignored where UnixSocket is set.
	BaseURL string
	// RootPEM is the controller's root CA: one certificate, the only one trusted.
	// The system's roots never count.
	RootPEM []byte
	// Pin is sha256:<hex> of the root's DER; "" does not compare it.
	Pin string
	// Token is an API token sent as bearer, "" for none.
	Token string
	// Certificate is asked for the client certificate at every handshake, so a
	// renewed one is used by the next connection; nil for none.
	Certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// Timeout is for a whole request with its body; 0 leaves it to the context,
	// which suits long polls and uploads.
	Timeout time.Duration
	// Dial makes the TCP connections; nil for the ordinary way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Over is put over the transport; nil for nothing. What it gets from the transport as an
	// error is *Unreachable, unless the request was cancelled.
	Over func(http.RoundTripper) http.RoundTripper
	// UnixSocket is the path of the controller's local socket. It uses plain HTTP, because
	// the file system says who may open it.
	UnixSocket string
}

// Controller is one controller: the generated calls, over a transport that
// trusts the pinned root alone, knows no proxy and follows no redirect. It
// speaks HTTP/1.1: a parked poll is cheaper there for the controller. Errors
// name the URL and what to do; see Read and ProblemOf for answers.
type Controller struct {
	*Client
	http *http.Client
}

// How long one attempt to connect, and then the TLS handshake, may take. If thousands of
// nodes come at once, all are connected long before the controller reaches the last one's
// handshake; giving up earlier would only put that node at the end of the queue.
const (
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 25 * time.Second
)

// keepAlive notices within 75 seconds, however long a request is held, that the other side
// or the network to it has silently gone: a parked poll sends nothing. Six probes are enough
// for a network that loses every third packet in each direction.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 6}

// New checks the options; it does not connect.
func New(o Options) (*Controller, error) {
	transport := &http.Transport{
		Proxy:               nil,
		DialContext:         (&net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepAlive}).DialContext,
		TLSHandshakeTimeout: handshakeTimeout,
		// A connection that waits costs the controller as much as one that works; it
		// closes its own end later, so that none is closed while it is taken up.
		IdleConnTimeout:     15 * time.Second,
		MaxIdleConnsPerHost: 2,
	}
	if o.Dial != nil {
		transport.DialContext = o.Dial
	}
	base, socket := o.BaseURL, ""
	if o.UnixSocket != "" {
		base, socket = "http://controller", "the controller's socket "+o.UnixSocket
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "unix", o.UnixSocket)
		}
	} else {
		if err := CheckURL(o.BaseURL); err != nil {
			return nil, fmt.Errorf("controller URL: %w", err)
		}
		trust, err := trustOnly(o.RootPEM, o.Pin)
		if err != nil {
			return nil, err
		}
		trust.GetClientCertificate = o.Certificate
		transport.TLSClientConfig = trust
	}
	var over http.RoundTripper = &explaining{next: transport, socket: socket}
	if o.Over != nil {
		over = o.Over(over)
	}
	c := &Controller{http: &http.Client{
		Transport:     over,
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	editors := []ClientOption{WithHTTPClient(bare{c.http}), WithRequestEditorFn(userAgent)}
	if o.Token != "" {
		editors = append(editors, WithRequestEditorFn(Bearer(o.Token)))
	}
	var err error
	c.Client, err = NewClient(base, editors...)
	return c, err
}

// CloseIdle closes connections that carry no request, so that the next request
// makes a new one: after a renewal, with the new certificate.
func (c *Controller) CloseIdle() { c.http.CloseIdleConnections() }

// Bearer sends a token with one request, in the place of Options.Token.
func Bearer(token string) RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

func userAgent(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Agent", "nodehitch/"+version.Version)
	return nil
}

// CheckURL checks the form of a controller's URL. Its errors do not repeat it, for it may have
// a password.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return fmt.Errorf("not a URL; expected https://host:port")
	case u.Scheme != "https":
		return fmt.Errorf("found scheme %q; only https is spoken, expected https://host:port", u.Scheme)
	case u.Hostname() == "":
		return fmt.Errorf("names no host; expected https://host:port")
	case !validPort(u.Port()):
		return fmt.Errorf("found port %s; expected a number up to 65535", u.Port())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Path != "" && u.Path != "/"):
		return fmt.Errorf("found more than a host and a port, for %s; expected https://host:port and nothing else", u.Host)
	}
	return nil
}

func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil
}
