package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
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

var quiet = log.New(io.Discard, "", 0)

// authority is a CA with the chain below its root that leaves send along.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	chain [][]byte
}

func newRoot(t *testing.T, name string) authority {
	return authority{}.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true})
}

func (a authority) intermediate(t *testing.T) authority {
	sub := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "intermediate"}, IsCA: true, BasicConstraintsValid: true})
	sub.chain = [][]byte{sub.cert.Raw}
	return sub
}

func (a authority) server(t *testing.T, notAfter time.Time, names ...string) tls.Certificate {
	template := &x509.Certificate{NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf := a.sign(t, template)
	return tls.Certificate{Certificate: append([][]byte{leaf.cert.Raw}, a.chain...), PrivateKey: leaf.key}
}

// sign makes a certificate; the zero authority signs it with its own key.
func (a authority) sign(t *testing.T, template *x509.Certificate) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, parentKey := a.cert, a.key
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
	return authority{cert: cert, key: key}
}

func (a authority) pem() []byte { return encode(a.cert.Raw) }

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
