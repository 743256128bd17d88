package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// explain turns an error of the connection into one with a reason.
func (s *session) explain(err error, note string) error {
	var waiting *converge.Waiting
	var terminal *converge.Terminal
	if errors.As(err, &waiting) || errors.As(err, &terminal) {
		return err
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return s.rejected(certificate)
	}
	why := s.clean(err.Error())
	var noTLS tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("no answer within %s", s.Limit)
	case errors.As(err, &noTLS), strings.Contains(why, "server gave HTTP response to HTTPS client"):
		why = `the server there does not use TLS: if it is plain HTTP, the connection_type is "0"`
	case strings.Contains(why, `malformed HTTP response "\x15\x03`):
		why = "the server there uses TLS: " + isHTTPS
	}
	if note != "" {
		why += "; " + note
	}
	return converge.Wait(api.ReasonUnreachable, "%s does not answer: %s", s.Server, why)
}

const isHTTPS = `if it is HTTPS, the connection_type is "1"`

// wrongScheme recognises an HTTPS server's answer to plain HTTP.
func (s *session) wrongScheme(a *answer) string {
	if s.base.Scheme == "http" && a.status == http.StatusBadRequest && strings.Contains(string(a.body), "HTTPS") {
		return isHTTPS
	}
	return ""
}

// rejected says what is wrong with a certificate. A wrong date may only be this machine's
// clock, so it is retried; all else needs an operator.
func (s *session) rejected(err *tls.CertificateVerificationError) error {
	leaf := err.UnverifiedCertificates[0]
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return converge.Wait(api.ReasonCertificateRejected, "%s: %s", s.Server, s.outOfDate(invalid.Cert, leaf))
	case errors.As(err, &name):
		return converge.Fail(api.ReasonCertificateRejected, "%s: its certificate (%s) is not for %s but for %s",
			s.Server, s.describe(leaf), s.clean(name.Host), s.names(leaf))
	case errors.As(err, &unknown):
		return converge.Fail(api.ReasonCertificateRejected, "%s: its certificate (%s) is signed by no trusted CA: neither by one of the system's nor by %s",
			s.Server, s.describe(leaf), s.given())
	}
	return converge.Fail(api.ReasonCertificateRejected, "%s: its certificate (%s) is rejected: %s", s.Server, s.describe(leaf), s.clean(err.Err.Error()))
}

func (s *session) outOfDate(bad, leaf *x509.Certificate) string {
	which := "its certificate"
	if !bad.Equal(leaf) {
		which = "the certificate of its CA"
	}
	now := time.Now()
	if now.Before(bad.NotBefore) {
		return fmt.Sprintf("%s (%s) is not valid yet; this machine's clock says %s", which, s.describe(bad), day(now))
	}
	return fmt.Sprintf("%s (%s) has expired; this machine's clock says %s", which, s.describe(bad), day(now))
}

func (s *session) describe(c *x509.Certificate) string {
	return fmt.Sprintf("%s, issued by %s, valid from %s to %s", s.named(c.Subject.String()), s.named(c.Issuer.String()), day(c.NotBefore), day(c.NotAfter))
}

func (s *session) named(subject string) string {
	if subject == "" {
		return "(no name)"
	}
	return s.clean(subject)
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// names are the names that the certificate is for.
func (s *session) names(c *x509.Certificate) string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, net.IP.String(ip))
	}
	if len(names) == 0 {
		return "nothing: it has no subject alternative name, and the common name does not count"
	}
	return s.clean(strings.Join(names, ", "))
}

// given describes the CA that the operator gave.
func (s *session) given() string {
	certificates, err := params.ReadCertificates(s.CA)
	if len(s.CA) == 0 || err != nil {
		return "one of yours, because none is given"
	}
	var subjects []string
	for _, c := range certificates {
		subjects = append(subjects, s.named(c.Subject.String()))
	}
	return "the given " + s.clean(strings.Join(subjects, "; "))
}
