package registrytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Certificate is a certificate with its key, both PEM.
type Certificate struct {
	PEM, Key []byte

	parsed *x509.Certificate
	key    *ecdsa.PrivateKey
}

// Valid is the time in which a certificate is valid.
type Valid struct{ From, Until time.Time }

// Now is a validity that includes now.
func Now() Valid { return Valid{time.Now().Add(-time.Hour), time.Now().Add(24 * time.Hour)} }

// Past is a validity that is over.
func Past() Valid { return Valid{time.Now().Add(-48 * time.Hour), time.Now().Add(-24 * time.Hour)} }

// Future is a validity that has not begun.
func Future() Valid { return Valid{time.Now().Add(24 * time.Hour), time.Now().Add(48 * time.Hour)} }

// CA makes a CA.
func CA(t testing.TB, name string, v Valid) *Certificate {
	t.Helper()
	return issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, v, nil)
}

// Issue makes a certificate for these names and addresses, for a server or a client.
func (c *Certificate) Issue(t testing.TB, v Valid, names ...string) *Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "registry"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return issue(t, template, v, c)
}

// issue makes a self-signed certificate if there is no issuer.
func issue(t testing.TB, template *x509.Certificate, v Valid, issuer *Certificate) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = v.From, v.Until
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.parsed, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Certificate{
		PEM:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		parsed: parsed, key: key,
	}
}

// TLS is the certificate for a server that the test runs.
func (c *Certificate) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{c.parsed.Raw}, PrivateKey: c.key}
}
