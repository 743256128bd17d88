package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Unreachable is a request that got no answer. It wraps the cause.
type Unreachable struct {
	// Where is the controller's URL or socket.
	Where string
	// Found says what happened, in words; "" for the text of the cause.
	Found string
	// Hint says what to do.
	Hint string
	Err  error
}

// Error names the controller, what happened and what to do.
func (e *Unreachable) Error() string {
	text := e.Where + ": " + e.Found
	if e.Found == "" {
		text += e.Err.Error()
	}
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
	if err == nil && r.Context().Err() != nil { // the server may have answered because the caller waits no more
		_ = resp.Body.Close()
		resp, err = nil, context.Cause(r.Context())
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return resp, err
	}
	e := &Unreachable{Where: t.socket, Err: err}
	if e.Where == "" {
		e.Where = r.URL.Scheme + "://" + r.URL.Host
	}
	cause := context.Cause(r.Context())
	if cause != nil && errors.Is(err, cause) && !errors.Is(err, context.DeadlineExceeded) { // the caller has said why it ends
		e.Found, e.Hint = cause.Error(), slow
	} else {
		e.Found, e.Hint = explain(err)
	}
	return nil, e
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

const slow = "check the route, the firewall and whether the controller runs"

// explain says what happened, and what to do.
func explain(err error) (found, hint string) {
	if found, hint := explainTLS(err); found != "" {
		return found, hint
	}
	var dns *net.DNSError
	var network net.Error
	var op *net.OpError
	socket := errors.As(err, &op) && op.Net == "unix"
	switch {
	case errors.As(err, &dns):
		found = "the name " + dns.Name + " cannot be resolved (" + dns.Err + ")"
		if dns.IsNotFound {
			found = "there is no such host as " + dns.Name
		}
		return found, "check the controller's name and this machine's resolver"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", "nothing listens there; is the controller running?"
	case socket && errors.Is(err, fs.ErrPermission):
		return "permission denied", "the socket is for root alone"
	case socket && errors.Is(err, fs.ErrNotExist):
		return "there is no such socket", "is the controller running on this machine?"
	case errors.As(err, &network) && network.Timeout():
		return "no answer in time", slow
	case broken(err):
		return "the connection ended before an answer", "did the controller stop, or is something in between? Try again"
	}
	var call syscall.Errno
	switch {
	case errors.As(err, &call): // such as "no route to host"
		return call.Error(), slow
	case op != nil:
		return op.Err.Error(), ""
	}
	return withoutPackage(err), ""
}

// explainTLS says what is wrong with a handshake or a certificate; "" if it is something else.
func explainTLS(err error) (found, hint string) {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		alert   *net.OpError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "its certificate is signed by an unknown authority, not by the root certificate that is trusted here",
			"this is not the controller whose root is pinned, or something intercepts TLS on the way; nothing was sent"
	case errors.As(err, &name):
		return "its certificate is for " + namesOf(name.Certificate) + ", not for " + name.Host,
			"use a name that the controller's certificate has, or add this one to its configuration"
	case errors.As(err, &invalid):
		return explainInvalid(invalid), "check the clocks of both machines, then the controller's server certificate"
	case errors.As(err, &alert) && alert.Op == "remote error": // how crypto/tls gives an alert
		return "the controller refused the TLS handshake (" + withoutPackage(alert.Err) + ")",
			"a client certificate that it does not know or that has expired is the usual cause"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "what answers there does not speak TLS", "is it the port of the controller's API, which is 8443 by default?"
	}
	return "", ""
}

func explainInvalid(e x509.CertificateInvalidError) string {
	whose := "its certificate"
	if e.Cert.IsCA {
		whose = "a certificate above its own"
	}
	now, clock := time.Now().UTC(), ", and this machine's clock says "
	switch {
	case e.Reason != x509.Expired:
		return whose + " is not valid (" + withoutPackage(e) + ")"
	case now.Before(e.Cert.NotBefore):
		return whose + " is not yet valid: it begins at " + e.Cert.NotBefore.UTC().Format(time.RFC3339) + clock + now.Format(time.RFC3339)
	}
	return whose + " has expired: it ended at " + e.Cert.NotAfter.UTC().Format(time.RFC3339) + clock + now.Format(time.RFC3339)
}

// mostNames is how many names of a certificate are shown.
const mostNames = 5

// namesOf are the names of a certificate, which nobody has checked yet.
func namesOf(c *x509.Certificate) string {
	var names []string
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range c.DNSNames {
		names = append(names, strings.Trim(fmt.Sprintf("%.80q", name), `"`))
	}
	switch n := len(names); {
	case n == 0:
		return "no name"
	case n > mostNames:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), n-mostNames)
	}
	return strings.Join(names, ", ")
}

// broken reports whether a connection ended too early.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// withoutPackage is the text of an error without the name of the package that it is from.
func withoutPackage(err error) string {
	text := err.Error()
	for _, name := range []string{"net/http: ", "http: ", "tls: ", "x509: "} {
		text = strings.TrimPrefix(text, name)
	}
	return text
}
