package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

func newTemplate(now time.Time, life time.Duration, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-backdate).UTC().Truncate(time.Second),
		NotAfter:     now.Add(life).UTC().Truncate(time.Second),
	}
}

func authority(template *x509.Certificate, pathLen int) {
	template.BasicConstraintsValid = true
	template.IsCA = true
	template.MaxPathLen = pathLen
	template.MaxPathLenZero = pathLen == 0
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
}

// sign issues template for key. No certificate outlives its issuer.
func sign(template *x509.Certificate, key crypto.Signer, issuer *pair) (*pair, error) {
	cert, err := issue(template, key.Public(), issuer)
	if err != nil {
		return nil, err
	}
	return &pair{cert: cert, key: key, issuer: issuer.cert}, nil
}

func issue(template *x509.Certificate, public crypto.PublicKey, issuer *pair) (*x509.Certificate, error) {
	if issuer.key == nil {
		return nil, errors.New("the issuer's private key is missing")
	}
	if template.NotAfter.After(issuer.cert.NotAfter) {
		template.NotAfter = issuer.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, public, issuer.key)
	if err != nil {
		return nil, fmt.Errorf("signing %q: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// newSerial is 128 random bits, positive and never short (RFC 5280, 4.1.2.2).
func newSerial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}

func serialText(serial *big.Int) string { return fmt.Sprintf("%032x", serial) }
