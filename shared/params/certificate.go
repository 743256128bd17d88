package params

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// maxSubject bounds a name that is shown: to write one out takes the square of its size.
const maxSubject = 8 << 10

// ReadCertificates reads each block of a file of PEM certificates. Docker and containerd read
// the same file, so what they pass over is an error. Other blocks are not, least of all a private key,
// because the file is copied to every node. The error is a fault.List without places.
func ReadCertificates(data []byte) ([]*x509.Certificate, error) {
	if _, err := x509.ParseCertificate(data); err == nil {
		return nil, certificateFault("is a certificate in DER form; convert it: openssl x509 -inform der -in FILE -out ca.crt")
	}
	blocks, err := pemtext.Plain(data)
	switch {
	case err != nil && bytes.Contains(data, []byte("PRIVATE KEY-----")):
		return nil, certificateFault("holds a private key; expected CA certificates only, take the key out and consider it known")
	case err != nil:
		return nil, certificateFault(err.Error())
	case len(blocks) == 0:
		return nil, certificateFault("holds no PEM certificate (-----BEGIN CERTIFICATE-----)")
	}
	var certificates []*x509.Certificate
	for i, block := range blocks {
		number := i + 1
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return nil, certificateFault("holds a private key; expected CA certificates only, take the key out and consider it known")
		}
		if block.Type != "CERTIFICATE" {
			return nil, certificateFault(fmt.Sprintf("has a PEM block of type %.40q; expected CERTIFICATE only", block.Type))
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, certificateFault(fmt.Sprintf("has a PEM block, number %d, that is no X.509 certificate: %v", number, err))
		}
		if len(certificate.RawSubject) > maxSubject || len(certificate.RawIssuer) > maxSubject {
			return nil, certificateFault(fmt.Sprintf("has a certificate, number %d, with a subject or an issuer of more than %d bytes", number, maxSubject))
		}
		certificates = append(certificates, certificate)
	}
	return certificates, nil
}

func certificateFault(message string) error {
	return fault.List{fault.Root.Fault(message)}
}

func (c *fileCheck) certificate(data []byte) {
	certificates, err := ReadCertificates(data)
	if err != nil {
		c.faults(err)
		return
	}
	for _, certificate := range certificates {
		subject := certificate.Subject.String()
		switch {
		case c.now.After(certificate.NotAfter):
			c.warn("holds the certificate of %q, which expired on %s", subject, certificate.NotAfter.UTC().Format(time.RFC3339))
		case c.now.Before(certificate.NotBefore):
			c.warn("holds the certificate of %q, which is not valid before %s", subject, certificate.NotBefore.UTC().Format(time.RFC3339))
		}
		// One that signed itself may be trusted as it is, CA or not.
		if !certificate.IsCA && !bytes.Equal(certificate.RawIssuer, certificate.RawSubject) {
			c.warn("holds the certificate of %q, which is not that of a CA; give the certificate of its issuer", subject)
		}
	}
}
