package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"
)

// handshake connects a client over a pipe and returns what each side saw.
func (w *world) handshake(config, client *tls.Config) (server tls.ConnectionState, serverErr, clientErr error) {
	w.t.Helper()
	listener, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	done := make(chan error, 1)
	go func() {
		conn, err := new(net.Dialer).DialContext(w.t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		c := tls.Client(conn, client)
		_, err = io.ReadAll(c)
		done <- err
	}()
	conn, err := listener.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	s := tls.Server(conn, config)
	serverErr = s.HandshakeContext(w.t.Context())
	server = s.ConnectionState()
	_ = s.Close() // the client may have hung up before
	return server, serverErr, <-done
}

func TestListener(t *testing.T) {
	w := newWorld(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.RootPEM()))
	chain, key := w.enrolled(nodeID)
	_, wrongKey := w.enrolled(nodeID)
	now := func() time.Time { return w.now }
	certificate := func(key crypto.Signer) []tls.Certificate {
		return []tls.Certificate{{Certificate: [][]byte{chain[0].Raw, chain[1].Raw}, PrivateKey: key}}
	}
	listener := w.TLSConfig()
	listener.Time = now
	client := &tls.Config{
		RootCAs: roots, ServerName: "controller.example", Time: now,
		ClientSessionCache: tls.NewLRUClientSessionCache(8), Certificates: certificate(key),
	}

	for range 2 {
		state, serverErr, clientErr := w.handshake(listener, client)
		if serverErr != nil || clientErr != nil {
			t.Fatal(serverErr, clientErr)
		}
		if state.DidResume {
			t.Error("a session was resumed: its certificate was not verified")
		}
		if id, _, err := w.VerifyNode(state.PeerCertificates, w.now, false); id != nodeID {
			t.Errorf("the peer is %q: %v", id, err)
		}
	}

	w.now = w.now.Add(2 * day)
	if _, serverErr, clientErr := w.handshake(listener, client); serverErr != nil || clientErr != nil {
		t.Errorf("an expired certificate could not even connect to renew: %v, %v", serverErr, clientErr)
	}
	stolen := client.Clone()
	stolen.Certificates = certificate(wrongKey)
	if _, serverErr, _ := w.handshake(listener, stolen); serverErr == nil {
		t.Error("a certificate without its key was accepted")
	}
	old := client.Clone()
	old.MaxVersion = tls.VersionTLS12
	if _, serverErr, _ := w.handshake(listener, old); serverErr == nil {
		t.Error("TLS 1.2 was accepted")
	}
	without := client.Clone()
	without.RootCAs = x509.NewCertPool()
	if _, _, clientErr := w.handshake(listener, without); clientErr == nil {
		t.Error("a client that does not know the root trusted the server")
	}
}

// A client that goes by the named issuers, as browsers do, presents a node's certificate whatever
// intermediate has signed it, and none of another authority.
func TestTheListenerNamesTheIssuersOfNodes(t *testing.T) {
	w := newWorld(t)
	w.now = dueAt(w.issuer().cert, 1, 2).Add(-time.Hour)
	before, key := w.enrolled(nodeID)
	old := w.issuer()
	w.pass(2 * time.Hour)
	if w.issuer() == old {
		t.Fatal("the intermediate was not rotated")
	}
	after, newKey := w.enrolled(nodeID)
	foreign, foreignKey := newWorld(t).enrolled(nodeID)
	foreign = foreign[:1]
	foreign[0].RawIssuer = []byte("of another name")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.RootPEM()))
	now := func() time.Time { return w.now }
	listener := w.TLSConfig()
	listener.Time = now
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		key   crypto.Signer
		sent  bool
	}{
		"of the intermediate before":              {before, key, true},
		"of the intermediate before, sent alone":  {before[:1], key, true},
		"of the present intermediate":             {after, newKey, true},
		"of the present intermediate, sent alone": {after[:1], newKey, true},
		"of another authority":                    {foreign, foreignKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			certificate := tls.Certificate{PrivateKey: c.key, Leaf: c.chain[0]}
			for _, cert := range c.chain {
				certificate.Certificate = append(certificate.Certificate, cert.Raw)
			}
			var named [][]byte
			client := &tls.Config{RootCAs: roots, ServerName: "controller.example", Time: now,
				GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
					named = request.AcceptableCAs
					if request.SupportsCertificate(&certificate) != nil {
						return new(tls.Certificate), nil //nolint:nilerr // a client without a certificate for these names
					}
					return &certificate, nil
				}}
			state, serverErr, clientErr := w.handshake(listener, client)
			if serverErr != nil || clientErr != nil {
				t.Fatal(serverErr, clientErr)
			}
			if len(named) != 2 {
				t.Errorf("%d issuers are named", len(named))
			}
			if sent := len(state.PeerCertificates) > 0; sent != c.sent {
				t.Errorf("it is sent: %v, want %v", sent, c.sent)
			}
			if !c.sent {
				return
			}
			for _, renewal := range []bool{false, true} {
				if id, _, err := w.VerifyNode(state.PeerCertificates, w.now, renewal); err != nil || id != nodeID {
					t.Errorf("it is taken for %q (renewal: %v): %v", id, renewal, err)
				}
			}
		})
	}
}
