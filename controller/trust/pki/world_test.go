package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const nodeID = "3f0c1d52-0000-4000-8000-000000000001"

// world is an authority on disk under a clock that the test moves.
type world struct {
	t     testing.TB
	dir   string
	names []string
	now   time.Time
	*Authority
}

func newWorld(t testing.TB) *world {
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

func newECKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func requestPEM(key crypto.Signer, template *x509.CertificateRequest) []byte {
	return []byte(testca.Request(key, template))
}

func parseChain(t testing.TB, text string) []*x509.Certificate {
	t.Helper()
	chain, err := testca.Chain(text)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// enrolled is the certificate of a node with a fresh key.
func (w *world) enrolled(id string) (chain []*x509.Certificate, key crypto.Signer) {
	w.t.Helper()
	key = testca.NewKey()
	text, _, _, err := w.SignNode(id, requestPEM(key, nil))
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
