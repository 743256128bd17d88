package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// Unreachable is a request that got no answer. It wraps the cause.
type Unreachable struct {
	// Where is the controller's URL or socket.
	Where string
	// Hint says what to do.
	Hint string
	Err  error
}

// Error names the controller, the cause and what to do.
func (e *Unreachable) Error() string {
	text := fmt.Sprintf("%s: %v", e.Where, e.Err)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap is the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// explaining turns the errors of a transport into Unreachable.
type explaining struct {
	next *http.Transport
	// socket is what the controller's socket is called, "" if requests go to URLs.
	socket string
}

func (t *explaining) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil || errors.Is(err, context.Canceled) {
		return resp, err
	}
	where := t.socket
	if where == "" {
		where = r.URL.Scheme + "://" + r.URL.Host
	}
	return nil, &Unreachable{Where: where, Hint: hint(err), Err: err}
}

// CloseIdleConnections is what http.Client looks for.
func (t *explaining) CloseIdleConnections() { t.next.CloseIdleConnections() }

// bare takes off what http.Client wraps around errors with an Unreachable, which say it all.
type bare struct{ *http.Client }

func (b bare) Do(r *http.Request) (*http.Response, error) {
	resp, err := b.Client.Do(r)
	var unreachable *Unreachable
	var wrapped *url.Error
	if errors.As(err, &unreachable) && errors.As(err, &wrapped) {
		return nil, wrapped.Err
	}
	return resp, err
}

func hint(err error) string {
	var (
		unknown *x509.UnknownAuthorityError
		name    *x509.HostnameError
		invalid *x509.CertificateInvalidError
		alert   *net.OpError
		dns     *net.DNSError
		network net.Error
	)
	switch {
	case as(err, &unknown):
		return "this is not the controller whose root is pinned, or something intercepts TLS on the way; nothing was sent"
	case as(err, &name):
		return "use a name that the controller's certificate has, or add this one to its configuration"
	case as(err, &invalid):
		return "check the clocks of both machines, then the controller's server certificate"
	case errors.As(err, &alert) && alert.Op == "remote error": // how crypto/tls gives an alert
		return "the controller refused the handshake; a client certificate that it does not know or that has expired is the usual cause"
	case errors.As(err, &dns):
		return "check the controller's name and this machine's resolver"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; is the controller running?"
	case errors.Is(err, fs.ErrPermission):
		return "the socket is for root alone"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket; is the controller running on this machine?"
	case errors.As(err, &network) && network.Timeout():
		return "no answer in time; check the route, the firewall and whether the controller runs"
	}
	return ""
}

// as is errors.As for the certificate errors, which crypto/x509 returns by value
// inside a *tls.CertificateVerificationError.
func as[E error](err error, target **E) bool {
	var value E
	if errors.As(err, &value) {
		*target = &value
		return true
	}
	return false
}
