// Package testca makes certificate chains for tests of TLS: right ones and, by
// giving the wrong authority, name or time, wrong ones. For tests of enrollment it makes
// keys and certificate requests. It is never linked into a binary.
package testca

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"testing"
	"time"
)

// Quiet is for the ErrorLog of test servers whose handshakes are meant to fail.
var Quiet = log.New(io.Discard, "", 0)

// Authority is a CA.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// chain is what its leaves send along, DER.
	chain [][]byte
}

// Root is a new root CA.
func Root(t testing.TB, name string) Authority {
	t.Helper()
	return Authority{}.sign(t, ca(name))
}

// Intermediate is a CA below this one, whose leaves send it along.
func (a Authority) Intermediate(t testing.TB) Authority {
	t.Helper()
	sub := a.sign(t, ca("intermediate"))
	sub.chain = [][]byte{sub.Cert.Raw}
	return sub
}

// Server is a certificate for DNS names and IP addresses, good from an hour ago
// until notAfter.
func (a Authority) Server(t testing.TB, notAfter time.Time, names ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf := a.sign(t, template)
	return tls.Certificate{Certificate: append([][]byte{leaf.Cert.Raw}, a.chain...), PrivateKey: leaf.key}
}

// Issue is a certificate of the template's names and uses, and of an hour's life
// unless the template has another end, over a new key.
func (a Authority) Issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	leaf := a.sign(t, &x509.Certificate{NotAfter: template.NotAfter, Subject: template.Subject, URIs: template.URIs,
		DNSNames: template.DNSNames, IPAddresses: template.IPAddresses, KeyUsage: template.KeyUsage, ExtKeyUsage: template.ExtKeyUsage})
	return tls.Certificate{Certificate: append([][]byte{leaf.Cert.Raw}, a.chain...), PrivateKey: leaf.key}
}

// PEM is the CA's certificate.
func (a Authority) PEM() []byte { return Encode(a.Cert.Raw) }

// Encode is a certificate's DER as PEM.
func Encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func ca(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

// sign makes a certificate; the zero Authority signs it with its own key.
func (a Authority) sign(t testing.TB, template *x509.Certificate) Authority {
	t.Helper()
	key := NewKey()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, parentKey := a.Cert, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Authority{Cert: cert, key: key}
}
