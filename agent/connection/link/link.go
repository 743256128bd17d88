// Package link calls the controller: it tries the controller's URLs in order, with
// one client certificate or none. It trusts only the pinned root and uses no proxy.
// A long poll occupies one connection; other calls use a second one, which is closed
// after it has been idle.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// ShortCall bounds every request but a poll.
const ShortCall = 30 * time.Second

// Options are the controller's addresses and the root to trust.
type Options struct {
	URLs    []string
	RootPEM []byte
	Pin     string
	// Certificate is the node's, nil before enrollment.
	Certificate *tls.Certificate
	// Dial makes the TCP connections; nil for net.Dialer.
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

// Do makes a call. If the controller cannot be reached at one URL, Do tries the next;
// any answer of the controller ends it. The call must be idempotent, because it may be
// made more than once.
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
			return withCommands(err)
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

// URL is the one that answered last, or the first one to try.
func (l *Link) URL() string { return l.urls[l.current()] }

// Close closes the connections that have no request in flight.
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

// withCommands adds to a refusal what an operator types: the agent's journal and status are read
// by people at a terminal.
func withCommands(err error) error {
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Commands() == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, problem.Commands())
}

// elsewhere reports whether another URL may answer: this one gave no answer, or an
// answer that is not the controller's.
func elsewhere(err error) bool {
	var unreachable *client.Unreachable
	var unexpected *client.UnexpectedAnswer
	return errors.As(err, &unreachable) || errors.As(err, &unexpected)
}
