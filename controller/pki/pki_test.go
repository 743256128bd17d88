package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const nodeID = "3f0c1d52-0000-4000-8000-000000000001"

// world is an authority on disk under a clock that the test moves.
type world struct {
	t     *testing.T
	dir   string
	names []string
	now   time.Time
	*Authority
}

func newWorld(t *testing.T) *world {
	w := &world{
		t:     t,
		dir:   filepath.Join(t.TempDir(), "pki"),
		names: []string{"controller.example", "192.0.2.1", "2001:db8::1"},
		now:   time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC),
	}
	w.restart()
	return w
}

func (w *world) load() (*Authority, error) {
	return Load(Options{
		Dir: w.dir, Names: w.names,
		Now: func() time.Time { return w.now },
		Log: slog.New(slog.DiscardHandler),
	})
}

func (w *world) restart() {
	w.t.Helper()
	a, err := w.load()
	if err != nil {
		w.t.Fatal(err)
	}
	w.Authority = a
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	if err := w.Rotate(); err != nil {
		w.t.Fatal(err)
	}
}

func newECKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func requestPEM(t *testing.T, key crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func parseChain(t *testing.T, chain string) []*x509.Certificate {
	t.Helper()
	var certs []*x509.Certificate
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, cert)
	}
	return certs
}

// enrolled is the certificate of a node with a fresh key.
func (w *world) enrolled(id string) (chain []*x509.Certificate, key crypto.Signer) {
	w.t.Helper()
	key = newECKey(w.t, elliptic.P256())
	text, _, _, err := w.SignNode(id, requestPEM(w.t, key, &x509.CertificateRequest{}))
	if err != nil {
		w.t.Fatal(err)
	}
	return parseChain(w.t, text), key
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestTheRootOutlivesRestartsAndRotations(t *testing.T) {
	w := newWorld(t)
	pin := w.Pin()
	block, _ := pem.Decode([]byte(w.RootPEM()))
	sum := sha256.Sum256(block.Bytes)
	if want := "sha256:" + hex.EncodeToString(sum[:]); pin != want {
		t.Errorf("pin %s, want %s", pin, want)
	}
	for range 10 {
		w.pass(year)
		w.restart()
	}
	if got := w.Pin(); got != pin {
		t.Errorf("the pin is %s after ten years, was %s", got, pin)
	}
}

func TestFilesArePrivate(t *testing.T) {
	w := newWorld(t)
	w.pass(intermediateLife/2 + day)
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Errorf("%d files, want the root, two intermediates and the server: %v", len(entries), entries)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %#o", entry.Name(), mode)
		}
	}
}

func TestServerCertificateRotates(t *testing.T) {
	w := newWorld(t)
	serial := func() string { return serialText(w.ServerCertificate().Leaf.SerialNumber) }
	first := serial()
	w.pass(59 * day)
	w.restart()
	if serial() != first {
		t.Error("replaced before two thirds of its life")
	}
	w.pass(2 * day)
	second := serial()
	if second == first {
		t.Error("not replaced after two thirds of its life")
	}
	w.names = []string{"other.example"}
	w.restart()
	leaf := w.ServerCertificate().Leaf
	if diff := cmp.Diff([]string{"other.example"}, leaf.DNSNames); diff != "" || len(leaf.IPAddresses) != 0 {
		t.Errorf("after the names changed it is for %v %v", leaf.DNSNames, leaf.IPAddresses)
	}
	third := serialText(leaf.SerialNumber)
	w.restart()
	if serial() != third {
		t.Error("replaced by a restart although nothing changed")
	}
}

// Agents know the root alone.
func TestClientsThatKnowTheRootTrustTheServer(t *testing.T) {
	w := newWorld(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.RootPEM()))
	for step := range 30 {
		cert := w.ServerCertificate()
		intermediates := x509.NewCertPool()
		for _, der := range cert.Certificate[1:] {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			intermediates.AddCert(c)
		}
		for _, name := range []string{"controller.example", "[192.0.2.1]", "[2001:db8::1]"} {
			for _, at := range []time.Time{w.now, w.now.Add(-50 * time.Minute)} {
				_, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates, CurrentTime: at})
				if err != nil {
					t.Fatalf("month %d, %s at %s: %v", step, name, at, err)
				}
			}
		}
		w.pass(30 * day)
	}
}

func TestIntermediateRotatesAndTheOldOneStaysGood(t *testing.T) {
	w := newWorld(t)
	w.pass(intermediateLife/2 - 2*time.Hour)
	before, _ := w.enrolled(nodeID)
	w.pass(3 * time.Hour)
	after, _ := w.enrolled(nodeID)
	if before[1].Equal(after[1]) {
		t.Fatal("the intermediate is the same past half of its life")
	}
	for name, chain := range map[string][]*x509.Certificate{"old": before, "new": after} {
		id, serial, err := w.VerifyNode(chain, w.now, false)
		if err != nil || id != nodeID || serial != serialText(chain[0].SerialNumber) {
			t.Errorf("under the %s intermediate: %q %q %v", name, id, serial, err)
		}
	}
	old, err := readPair(filepath.Join(w.dir, intermediateFile(before[1])))
	if err != nil {
		t.Fatal(err)
	}
	if old.key != nil {
		t.Error("the old intermediate's key is still on disk")
	}
	w.pass(intermediateLife/2 + RenewalGrace + 2*day)
	if _, err := os.Stat(filepath.Join(w.dir, intermediateFile(before[1]))); err == nil {
		t.Error("the old intermediate is still there when nothing under it counts any more")
	}
}

// A controller that was switched off for years starts and lets in what may renew.
func TestStartAfterYears(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(intermediateLife - 10*day)
	chain, _ := w.enrolled(nodeID) // no rotation ran
	w.now = w.now.Add(20 * day)
	w.restart()
	if _, _, err := w.VerifyNode(chain, w.now, true); err != nil {
		t.Errorf("a certificate that ended 19 days ago under an intermediate that ended too: %v", err)
	}
	fresh, _ := w.enrolled(nodeID)
	if _, _, err := w.VerifyNode(fresh, w.now, false); err != nil {
		t.Error(err)
	}
}

func TestNodeCertificateIsOnlyWhatWeDecide(t *testing.T) {
	w := newWorld(t)
	caBit, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	uri, _ := url.Parse(nodeURN + "another-node")
	text, serial, notAfter, err := w.SignNode(nodeID, requestPEM(t, newECKey(t, elliptic.P256()), &x509.CertificateRequest{
		Subject:         pkix.Name{CommonName: "root", Organization: []string{"system:masters"}},
		DNSNames:        []string{"controller.example"},
		IPAddresses:     []net.IP{net.IPv4(192, 0, 2, 1)},
		URIs:            []*url.URL{uri},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: caBit}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	leaf := parseChain(t, text)[0]
	got := map[string]any{
		"subject": leaf.Subject.String(), "uris": len(leaf.URIs), "uri": leaf.URIs[0].String(),
		"dns": len(leaf.DNSNames), "ip": len(leaf.IPAddresses), "ca": leaf.IsCA,
		"usage": leaf.KeyUsage, "extended": len(leaf.ExtKeyUsage), "extended[0]": leaf.ExtKeyUsage[0],
		"notBefore": leaf.NotBefore, "notAfter": leaf.NotAfter,
	}
	want := map[string]any{
		"subject": "CN=" + nodeID, "uris": 1, "uri": "urn:nodehitch:node:" + nodeID,
		"dns": 0, "ip": 0, "ca": false,
		"usage": x509.KeyUsageDigitalSignature, "extended": 1, "extended[0]": x509.ExtKeyUsageClientAuth,
		"notBefore": w.now.Add(-time.Hour), "notAfter": w.now.Add(24 * time.Hour),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !notAfter.Equal(leaf.NotAfter) || serial != serialText(leaf.SerialNumber) || leaf.SerialNumber.BitLen() < 120 {
		t.Errorf("serial %s, until %s", serial, notAfter)
	}
	if id, _, err := w.VerifyNode([]*x509.Certificate{leaf}, w.now, false); id != nodeID {
		t.Errorf("it verifies as %q: %v", id, err)
	}
}

func TestKeysOfRequests(t *testing.T) {
	w := newWorld(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  crypto.Signer
		says string
	}{
		"ECDSA P-256": {newECKey(t, elliptic.P256()), ""},
		"ECDSA P-384": {newECKey(t, elliptic.P384()), ""},
		"ECDSA P-224": {newECKey(t, elliptic.P224()), "P-224"},
		"ECDSA P-521": {newECKey(t, elliptic.P521()), "P-521"},
		"Ed25519":     {ed, ""},
		"RSA 2048":    {weak, "2048 bits"},
		"RSA 3072":    {strong, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := requestPEM(t, c.key, &x509.CertificateRequest{})
			text, _, _, err := w.SignNode(nodeID, request)
			var invalid *RequestError
			if c.says != "" {
				if !errors.As(err, &invalid) {
					t.Errorf("%v is not a RequestError", err)
				}
				wantError(t, err, c.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			leaf := parseChain(t, text)[0]
			if _, _, err := w.VerifyNode([]*x509.Certificate{leaf}, w.now, false); err != nil {
				t.Error(err)
			}
			sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
			if hash, err := RequestKeyHash(request); hash != hex.EncodeToString(sum[:]) {
				t.Errorf("the hash of the key is %s, %v", hash, err)
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	good := requestPEM(t, newECKey(t, elliptic.P256()), &x509.CertificateRequest{})
	block, _ := pem.Decode(good)
	tampered := append([]byte(nil), block.Bytes...)
	tampered[len(tampered)-1] ^= 1
	chain, _ := w.enrolled(nodeID)
	for name, c := range map[string]struct{ request, says string }{
		"nothing":               {"", "one PEM block"},
		"two requests":          {string(good) + string(good), "one PEM block"},
		"a certificate":         {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw})), "one PEM block"},
		"a stolen public key":   {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: tampered})), "not signed with its own key"},
		"garbage":               {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})), "PKCS #10"},
		"megabytes of anything": {strings.Repeat("x", 1<<20), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := w.SignNode(nodeID, []byte(c.request))
			var invalid *RequestError
			if !errors.As(err, &invalid) {
				t.Errorf("%v is not a RequestError", err)
			}
			wantError(t, err, c.says)
		})
	}
}

func TestCertificatesOfOthersAreRefused(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	foreign, _ := other.enrolled(nodeID)
	own, ownKey := w.enrolled(nodeID)

	// A node that plays authority with its own certificate.
	uri, _ := url.Parse(nodeURN + "victim")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: w.now.Add(-time.Minute), NotAfter: w.now.Add(time.Hour),
		URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	forged, err := issue(template, ownKey.Public(), &pair{cert: own[0], key: ownKey})
	if err != nil {
		t.Fatal(err)
	}
	// A mistake of ours: a listener's certificate with a node's name.
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	listener, err := issue(template, ownKey.Public(), w.issuer())
	if err != nil {
		t.Fatal(err)
	}
	for name, chain := range map[string][]*x509.Certificate{
		"a listener's":                        {listener},
		"another authority's":                 foreign,
		"another's with our intermediate":     {foreign[0], own[1]},
		"another's with all of its authority": {foreign[0], foreign[1], other.root.cert},
		"signed by a node":                    {forged, own[0], own[1]},
		"the server's own":                    {w.ServerCertificate().Leaf},
		"an intermediate":                     {own[1]},
		"none":                                {},
	} {
		for _, renewal := range []bool{false, true} {
			if id, _, err := w.VerifyNode(chain, w.now, renewal); err == nil {
				t.Errorf("%s (renewal %v) was taken for node %q", name, renewal, id)
			}
		}
	}
}

func TestExpiredCertificatesMayRenewForThirtyDays(t *testing.T) {
	for name, c := range map[string]struct {
		age          time.Duration // since its end
		use, renewal bool
	}{
		"in its life":     {-time.Hour, true, true},
		"its last moment": {0, true, true},
		"a second late":   {time.Second, false, true},
		"29 days late":    {29 * day, false, true},
		"30 days late":    {30 * day, false, true},
		"31 days late":    {31 * day, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chain, _ := w.enrolled(nodeID)
			at := chain[0].NotAfter.Add(c.age)
			for _, try := range []struct{ renewal, want bool }{{false, c.use}, {true, c.renewal}} {
				id, _, err := w.VerifyNode(chain, at, try.renewal)
				if (err == nil) != try.want || (err == nil && id != nodeID) {
					t.Errorf("renewal %v: %q, %v; want accepted: %v", try.renewal, id, err, try.want)
				}
				if err != nil && !errors.Is(err, ErrExpired) {
					t.Errorf("renewal %v: %v, want ErrExpired", try.renewal, err)
				}
			}
		})
	}
	w := newWorld(t)
	chain, _ := w.enrolled(nodeID)
	if _, _, err := w.VerifyNode(chain, chain[0].NotBefore.Add(-time.Second), true); err == nil {
		t.Error("a certificate of the future was accepted")
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(w *world) error
		says   []string
	}{
		"a root that others can read":       {func(w *world) error { return os.Chmod(filepath.Join(w.dir, rootFile), 0o640) }, []string{rootFile, "chmod 0600"}},
		"a directory that others can write": {func(w *world) error { return os.Chmod(w.dir, 0o777) }, []string{"chmod 0700"}},
		"a lost root":                       {func(w *world) error { return os.Remove(filepath.Join(w.dir, rootFile)) }, []string{rootFile, "restore it"}},
		"a damaged root":                    {func(w *world) error { return os.WriteFile(filepath.Join(w.dir, rootFile), []byte("x"), 0o600) }, []string{rootFile, "damaged"}},
		"a root of another authority": {func(w *world) error {
			return newWorld(w.t).root.write(filepath.Join(w.dir, rootFile))
		}, []string{"not signed by", "restore the directory"}},
		"another's key in the root": {func(w *world) error {
			return (&pair{cert: w.root.cert, key: newECKey(w.t, elliptic.P256())}).write(filepath.Join(w.dir, rootFile))
		}, []string{rootFile, "not its certificate's"}},
		"a server name with a wildcard": {func(w *world) error { w.names = []string{"*.example"}; return nil }, []string{"*.example"}},
		"no server name":                {func(w *world) error { w.names = nil; return nil }, []string{"no name"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := c.damage(w); err != nil {
				t.Fatal(err)
			}
			_, err := w.load()
			wantError(t, err, c.says...)
		})
	}
}

// The root's key may be kept elsewhere and brought back for a rotation.
func TestRootKeyKeptElsewhere(t *testing.T) {
	w := newWorld(t)
	key := w.root.key
	path := filepath.Join(w.dir, rootFile)
	if err := (&pair{cert: w.root.cert}).write(path); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.pass(intermediateLife - day/2)
	chain, _ := w.enrolled(nodeID)
	for _, cert := range []*x509.Certificate{chain[0], w.ServerCertificate().Leaf} {
		if !cert.NotAfter.Equal(w.issuer().cert.NotAfter) {
			t.Errorf("a certificate until %s is issued by one until %s", cert.NotAfter, w.issuer().cert.NotAfter)
		}
	}
	w.now = w.now.Add(day)
	wantError(t, w.Rotate(), rootFile, "put the key back")
	if err := (&pair{cert: w.root.cert, key: key}).write(path); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.enrolled(nodeID)
}

// handshake connects a client over a pipe and returns what each side saw.
func (w *world) handshake(config, client *tls.Config) (server tls.ConnectionState, serverErr, clientErr error) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := net.Dial("tcp", listener.Addr().String())
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
	serverErr = s.Handshake()
	server = s.ConnectionState()
	s.Close()
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
			t.Error("a session was resumed: its certificate was not looked at")
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
	stranger := client.Clone()
	stranger.RootCAs = x509.NewCertPool()
	if _, _, clientErr := w.handshake(listener, stranger); clientErr == nil {
		t.Error("a client that does not know the root trusted the server")
	}
}

func BenchmarkVerifyNode(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "pki")
	a, err := Load(Options{Dir: dir, Names: []string{"controller.example"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	key, err := newKey()
	if err != nil {
		b.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		b.Fatal(err)
	}
	text, _, _, err := a.SignNode(nodeID, pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}))
	if err != nil {
		b.Fatal(err)
	}
	block, _ := pem.Decode([]byte(text))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := a.VerifyNode([]*x509.Certificate{leaf}, time.Now(), false); err != nil {
			b.Fatal(err)
		}
	}
}
