package replica_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trust is that of replicas whose seal key is 32 times this byte.
func trust(t testing.TB, sealKey byte) *replica.Trust {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seal.key")
	must(t, os.WriteFile(file, bytes.Repeat([]byte{sealKey}, store.KeySize), 0o600))
	secret, err := store.KeySource{File: file}.Derive(replica.KeyPurpose)
	must(t, err)
	made, err := replica.NewTrust(secret)
	must(t, err)
	return made
}

// shake has a client and a server shake hands, and then each send and read a byte.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, l.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer raw.Close()
		c := tls.Server(raw, server)
		if err = c.HandshakeContext(ctx); err == nil {
			_, err = c.Write([]byte("x"))
		}
		served <- err
	}()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	must(t, err)
	defer raw.Close()
	c := tls.Client(raw, client)
	if clientErr = c.HandshakeContext(ctx); clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1)) // a server's refusal of TLS 1.3 comes after the client's handshake
	} else {
		raw.Close()
	}
	return clientErr, <-served
}

func TestReplicasKnowEachOtherByTheirSealKey(t *testing.T) {
	own, same, other := trust(t, 1), trust(t, 1), trust(t, 2)
	authority := testca.Root(t, "node CA")
	node := authority.Issue(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	as := func(c *tls.Config, change func(*tls.Config)) *tls.Config { change(c); return c }
	for name, test := range map[string]struct {
		client, server *tls.Config
		good           bool
	}{
		"two replicas":                     {same.Client(), own.Server(), true},
		"a client of another seal key":     {as(other.Client(), func(c *tls.Config) { c.VerifyConnection = nil }), own.Server(), false},
		"a server of another seal key":     {own.Client(), as(other.Server(), func(c *tls.Config) { c.VerifyConnection = nil; c.ClientAuth = tls.NoClientCert }), false},
		"a node":                           {as(other.Client(), func(c *tls.Config) { c.VerifyConnection, c.Certificates = nil, []tls.Certificate{node} }), own.Server(), false},
		"a server with a certificate":      {own.Client(), &tls.Config{Certificates: []tls.Certificate{node}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}, false},
		"a client without a certificate":   {as(other.Client(), func(c *tls.Config) { c.VerifyConnection, c.Certificates = nil, nil }), own.Server(), false},
		"a replica that offers no TLS 1.3": {as(same.Client(), func(c *tls.Config) { c.MinVersion, c.MaxVersion = 0, tls.VersionTLS12 }), own.Server(), false},
		// Whoever has seen the certificate does not have its key.
		"a copy of the certificate": {as(other.Client(), func(c *tls.Config) {
			c.VerifyConnection = nil
			c.Certificates = []tls.Certificate{{Certificate: own.Client().Certificates[0].Certificate, PrivateKey: other.Client().Certificates[0].PrivateKey}}
		}), own.Server(), false},
	} {
		t.Run(name, func(t *testing.T) {
			clientErr, serverErr := shake(t, test.client, test.server)
			if good := clientErr == nil && serverErr == nil; good != test.good {
				t.Errorf("the client: %v; the server: %v", clientErr, serverErr)
			}
		})
	}
}

func TestTheKeyOfReplicasIsNoOtherKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seal.key")
	if _, err := (store.KeySource{File: file, Create: true}).Derive(replica.KeyPurpose); err == nil {
		t.Error("a seal key was made: each replica would make another one")
	}
	must(t, os.WriteFile(file, bytes.Repeat([]byte{1}, store.KeySize), 0o600))
	first, err := store.KeySource{File: file}.Derive(replica.KeyPurpose)
	must(t, err)
	second, err := store.KeySource{File: file}.Derive("something else")
	must(t, err)
	if bytes.Equal(first, second) || bytes.Equal(first, bytes.Repeat([]byte{1}, store.KeySize)) {
		t.Error("keys are shared")
	}
}
