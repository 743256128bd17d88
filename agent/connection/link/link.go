// Package link is the agent's line to its controller: the URLs that it may be
// reached at, tried in order, with one client certificate or none. It trusts the
// pinned root alone and knows no proxy. A parked poll holds one connection; what
// is sent meanwhile uses a second, which is closed when it has been idle.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/client"
)

// ShortCall bounds every request but a poll.
const ShortCall = 30 * time.Second

// Options say where the controller is and whom to trust.
type Options struct {
	URLs    []string
	RootPEM []byte
	Pin     string
	// Certificate is this node's, nil before it is enrolled.
	Certificate *tls.Certificate
	// Dial makes the TCP connections; nil for the ordinary way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Link is safe for concurrent use.
type Link struct {
	urls        []string
	controllers []*client.Controller

	mu sync.Mutex
	at int // the URL that answered last
}

// New checks the options; it does not connect.
func New(o Options) (*Link, error) {
	l := &Link{urls: o.URLs}
	for _, url := range o.URLs {
		c := client.Options{BaseURL: url, RootPEM: o.RootPEM, Pin: o.Pin, Dial: o.Dial}
		if o.Certificate != nil {
			c.Certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return o.Certificate, nil }
		}
		controller, err := client.New(c)
		if err != nil {
			return nil, err
		}
		l.controllers = append(l.controllers, controller)
	}
	if len(l.controllers) == 0 {
		return nil, errors.New("no controller URL is configured")
	}
	return l, nil
}

// Do makes a call. Where the controller cannot be reached at one URL, the call is
// made at the next; an answer of the controller, good or bad, ends it. The call
// may thus be made more than once, so it must be idempotent.
func (l *Link) Do(ctx context.Context, call func(context.Context, *client.Controller) error) error {
	first := l.current()
	var failures []error
	for i := range l.controllers {
		at := (first + i) % len(l.controllers)
		err := call(ctx, l.controllers[at])
		if !elsewhere(err) || ctx.Err() != nil {
			l.mu.Lock()
			l.at = at
			l.mu.Unlock()
			return err
		}
		failures = append(failures, err)
	}
	if len(failures) == 1 {
		return failures[0]
	}
	return errors.Join(failures...)
}

// Short is Do with a time limit for each URL.
func (l *Link) Short(ctx context.Context, call func(context.Context, *client.Controller) error) error {
	return l.Do(ctx, func(ctx context.Context, c *client.Controller) error {
		ctx, cancel := context.WithTimeout(ctx, ShortCall)
		defer cancel()
		return call(ctx, c)
	})
}

// URL is the one that answered last, or will be tried first.
func (l *Link) URL() string { return l.urls[l.current()] }

// Close closes the connections that carry no request.
func (l *Link) Close() {
	for _, c := range l.controllers {
		c.CloseIdle()
	}
}

func (l *Link) current() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// elsewhere says that another URL may do better: nobody answered, or somebody
// who is not the controller.
func elsewhere(err error) bool {
	var unreachable *client.Unreachable
	var unexpected *client.UnexpectedAnswer
	return errors.As(err, &unreachable) || errors.As(err, &unexpected)
}
