package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// NewKey is a key as agents make them.
func NewKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the random source of a running program does not fail
	}
	return key
}

// Request is a certificate request over a key, PEM. A nil template asks for nothing
// in particular, as agents do.
func Request(key crypto.Signer, template *x509.CertificateRequest) string {
	if template == nil {
		template = &x509.CertificateRequest{}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		panic(err) // the test asks for what cannot be encoded
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// Identity is the chain that was issued for a key, PEM, with that key. It fails if the
// chain is not for the key.
func Identity(chain string, key crypto.Signer) (tls.Certificate, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair([]byte(chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Chain is an issued chain, PEM, the leaf first. There is at least one certificate.
func Chain(text string) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	if len(chain) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return chain, nil
}
