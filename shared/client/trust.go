package client

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"github.com/nodehitch/nodehitch/shared/pemtext"
)

var pinGrammar = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Pin names a certificate: sha256:<hex> of its DER.
func Pin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ParseRoot reads a root CA: exactly one PEM certificate, of a CA. If pin is not empty, the
// certificate must be the one that it names.
func ParseRoot(rootPEM []byte, pin string) (*x509.Certificate, error) {
	if len(bytes.TrimSpace(rootPEM)) == 0 {
		return nil, errors.New("root certificate: none given; the controller's own root is required, because the system's roots are never used")
	}
	blocks, err := pemtext.Blocks(rootPEM)
	if err != nil {
		return nil, fmt.Errorf("root certificate: %w", err)
	}
	if len(blocks) == 0 || blocks[0].Type != "CERTIFICATE" {
		return nil, errors.New("root certificate: not a PEM certificate (-----BEGIN CERTIFICATE-----)")
	}
	if !bytes.HasSuffix(bytes.TrimSpace(rootPEM), []byte("-----END CERTIFICATE-----")) || len(blocks) > 1 {
		return nil, errors.New("root certificate: something follows the first certificate; expected the root alone")
	}
	cert, err := x509.ParseCertificate(blocks[0].Bytes)
	if err != nil {
		return nil, fmt.Errorf("root certificate: the block CERTIFICATE cannot be read (%s); is the file whole?", withoutPackage(err))
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("root certificate: %q is no CA; expected the controller's root, not its server certificate", cert.Subject.CommonName)
	}
	if pin == "" {
		return cert, nil
	}
	if !pinGrammar.MatchString(pin) {
		return nil, errors.New("pin: expected sha256: and 64 lower-case hexadecimal digits")
	}
	if found := Pin(cert); found != pin {
		return nil, fmt.Errorf("root certificate: is %s, but the pin is %s; one of the two belongs to another controller", found, pin)
	}
	return cert, nil
}

// trustOnly is TLS 1.3 with one root; names and validity are checked as always.
func trustOnly(rootPEM []byte, pin string) (*tls.Config, error) {
	root, err := ParseRoot(rootPEM, pin)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}, nil
}
