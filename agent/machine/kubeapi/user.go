package kubeapi

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
)

// User is the user that the kubeconfig's certificate names, "" if it has none.
func (c *Client) User() string {
	if c.certificate == nil {
		return ""
	}
	return c.certificate.Subject.CommonName
}

// CA is the cluster's certificate authority, PEM, and "sha256:<hex>" of its public key
// (RFC 7469), as kubeadm names it. Both are "" if the kubeconfig has none.
func (c *Client) CA() (certificate, hash string) {
	authority := certificateOf(c.authority)
	if authority == nil {
		return "", ""
	}
	sum := sha256.Sum256(authority.RawSubjectPublicKeyInfo)
	return string(c.authority), "sha256:" + hex.EncodeToString(sum[:])
}

// certificateOf is the first certificate of a PEM text, nil if there is none.
func certificateOf(text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return parsed
}
