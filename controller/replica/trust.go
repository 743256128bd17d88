// Package replica is what the replicas of a controller say to each other, over TLS that only
// they can speak: a replica hands requests to the leader with the identity of their caller,
// and replicas give each other the content of package files.
package replica

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// KeyPurpose is that of the key that NewTrust takes: see store.KeySource.Derive.
const KeyPurpose = "TLS between replicas"

// Trust is what a replica shows to others, and how it knows them: by one key pair that all of
// them have, because all derive it from the seal key. There is no CA, no name is compared, and
// the certificate, which only carries the key, never expires.
type Trust struct {
	certificate tls.Certificate
	key         ed25519.PublicKey
}

// NewTrust makes the key pair from 32 secret bytes.
func NewTrust(secret []byte) (*Trust, error) {
	if len(secret) != ed25519.SeedSize {
		return nil, fmt.Errorf("the key for TLS between replicas is made from %d bytes, expected %d", len(secret), ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(secret)
	public := private.Public().(ed25519.PublicKey)
	// 9999-12-31 is RFC 5280's date for a certificate that does not expire.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("making the certificate for TLS between replicas: %w", err)
	}
	return &Trust{certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: public}, nil
}

// Server is the configuration of a listener for replicas.
func (t *Trust) Server() *tls.Config {
	c := t.config()
	c.ClientAuth = tls.RequireAnyClientCert // verify compares its key
	return c
}

// Client is the configuration for calls of other replicas.
func (t *Trust) Client() *tls.Config {
	c := t.config()
	c.InsecureSkipVerify = true // verify compares the key, and TLS proves that the other side has it
	return c
}

func (t *Trust) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{t.certificate}, VerifyConnection: t.verify,
		SessionTicketsDisabled: true, NextProtos: []string{"h2"}}
}

var errWrongKey = errors.New("the other side does not have the key that this controller's replicas derive from their seal key")

func (t *Trust) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 || !t.key.Equal(s.PeerCertificates[0].PublicKey) {
		return errWrongKey
	}
	return nil
}
