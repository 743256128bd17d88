package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"
)

// wrap is an error of a call in this package's own words. Those of the library repeat
// the answer's body and the URL.
func (c *Cloud) wrap(at called, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Cloud: c.name, Service: at.service, Call: at.call}
	var again gophercloud.ErrErrorAfterReauthentication
	var againPointer *gophercloud.ErrErrorAfterReauthentication
	renewed := errors.As(err, &again) || errors.As(err, &againPointer)
	var failed *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &failed) {
		e.Service, e.Call = identity, loginCall
		err = failed.ErrReauth
	}
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) {
		e.Status = answered.Actual
		e.RequestID = requestID(answered.ResponseHeader)
		// A fresh token is refused: services answer so if an access rule of the application
		// credential is missing.
		e.denied = e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized && renewed
		e.Message = meaning(e)
		return e
	}
	e.Message, e.final = c.broken(err)
	return e
}

// meaning is what an HTTP status says here.
func meaning(e *Error) string {
	switch {
	case e.Service == identity && e.Status == http.StatusUnauthorized:
		return "Keystone does not accept the credential (401); check it, and that it has not expired"
	case e.Service == identity && e.Status == http.StatusNotFound:
		return "there is no Keystone at this URL (404); it often ends in /v3 or /identity/v3"
	case e.denied:
		return fmt.Sprintf("the credential may not make this call (%d); give its user the role for it, or its application credential an access rule for it (a service without service_type in its [keystone_authtoken] follows no access rules and refuses all)", e.Status)
	case e.Status == http.StatusNotFound:
		return "there is no such thing, or not for this credential (404)"
	case e.Status == http.StatusTooManyRequests:
		return "the service has too many requests (429)"
	case e.Status >= 300 && e.Status < 400:
		return fmt.Sprintf("the service points to another host (%d), which is not followed; check the endpoint in the catalog", e.Status)
	case e.Status >= http.StatusInternalServerError:
		return fmt.Sprintf("the service answered %d (%s)", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the service refused the call with %d (%s)", e.Status, http.StatusText(e.Status))
}

var requestIDs = regexp.MustCompile(`^req-[0-9a-f-]{36}$`)

// requestID is the id under which the service logged the call.
func requestID(h http.Header) string {
	for _, name := range []string{"X-Openstack-Request-Id", "X-Compute-Request-Id"} {
		if id := h.Get(name); requestIDs.MatchString(id) {
			return id
		}
	}
	return ""
}

// broken is why there is no answer that could be read, and whether that stays so.
func (c *Cloud) broken(err error) (string, bool) {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var name *net.DNSError
	var op *net.OpError
	var own said
	switch why := untrusted(err); {
	case why != "":
		return why, true
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Sprintf("no answer within %s", c.transport.timeout), false
	case errors.As(err, &name):
		return fmt.Sprintf("the host name %q is not known", name.Name), false
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)", false
	case errors.As(err, &own):
		return string(own), true
	case errors.As(err, &syntax), errors.As(err, &kind):
		return notThisService, true
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot connect to the host", false
	case errors.As(err, &op), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke", false
	}
	return "the call did not succeed", false
}

const notThisService = "the answer is not what this service should answer; check the endpoint in the catalog"

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// untrusted is what is wrong with the other side's certificate, "" for nothing.
func untrusted(err error) string {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate is from an authority that is not trusted; give the authority's certificate, as cacert of the clouds file or trustedCertificates of interfaceInfo"
	case errors.As(err, &hostname):
		return "its certificate is of another host name; use the name that the certificate has"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	case errors.As(err, &verification):
		return "its certificate is not valid"
	}
	return ""
}

// said is a fault that this package found, in words that may be shown.
type said string

func (s said) Error() string { return string(s) }
