package enrollment

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	instance = "11111111-0000-4000-8000-000000000001"
	server   = "3f0c1d52-aaaa-4000-8000-000000000001"
)

var remote = netip.MustParseAddr("192.0.2.7")

// world is a controller's store and authority under a clock that the test moves,
// with one instance whose topology names one server.
type world struct {
	*Service
	t       testing.TB
	path    string // of its store
	now     time.Time
	changed []string
	gone    []string
	counts
}

// counts are the metrics, by result of an enrollment or by what else happened.
type counts struct {
	mu     sync.Mutex
	events map[string]int
}

func (c *counts) Enrollment(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[result]++
}

func (c *counts) Renewal()          { c.Enrollment("renewal") }
func (c *counts) Revocation()       { c.Enrollment("revocation") }
func (c *counts) DiscoveryFailure() { c.Enrollment("discovery failure") }

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), counts: counts{events: map[string]int{}}}
	dir := t.TempDir()
	clock := func() time.Time { return w.now }
	w.path = filepath.Join(dir, "state.db")
	st, err := storetest.Open(t, store.Options{
		Path: w.path,
		Key:  store.KeySource{File: filepath.Join(dir, "key"), Create: true},
		Now:  clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantOK(t, st.Close()) })
	silent := slog.New(slog.DiscardHandler)
	authority, err := pki.Load(pki.Options{Dir: filepath.Join(dir, "pki"), Names: []string{"controller.example"}, Now: clock, Log: silent})
	if err != nil {
		t.Fatal(err)
	}
	w.Service = &Service{
		Store: st, PKI: authority, Now: clock, Log: silent,
		Changed: func(id string) { w.changed = append(w.changed, id) },
		Gone:    func(_ *store.Tx, id string) error { w.gone = append(w.gone, id); return nil },
		Metrics: &w.counts,
	}
	w.newInstance(instance)
	w.expect(server, instance, true)
	return w
}

func (w *world) newInstance(id string) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error { return w.NewJoinToken(tx, &store.Instance{ID: id}) })
}

func (w *world) expect(id, instanceID string, expected bool) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		node, _, err := tx.Nodes().Get(id)
		if err != nil {
			return err
		}
		node.ID, node.InstanceID, node.Expected, node.Epoch = id, instanceID, expected, w.Store.Epoch()
		return tx.Nodes().Put(id, node)
	})
}

func (w *world) update(fn func(*store.Tx) error) {
	w.t.Helper()
	if err := w.Store.Update(fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(id string) store.Node {
	w.t.Helper()
	var node store.Node
	err := w.Store.View(func(tx *store.Tx) (err error) {
		node, _, err = tx.Nodes().Get(id)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return node
}

func (w *world) token(instanceID string) string {
	w.t.Helper()
	token, err := w.JoinToken(context.Background(), instanceID)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// machine is a VM with a key of its own and the certificate that it was given last.
type machine struct {
	w      *world
	id     string
	key    *ecdsa.PrivateKey
	chain  []*x509.Certificate
	serial string
	facts  *api.Facts
}

func (w *world) boot(id string) *machine {
	return &machine{w: w, id: id, key: testca.NewKey()}
}

func (m *machine) enrollWith(token string) error {
	issued, err := m.w.Enroll(context.Background(), token, api.EnrollRequest{CertificateRequest: testca.Request(m.key, nil), ServerID: m.id, Facts: m.facts}, remote)
	return m.keep(issued, err)
}

func (m *machine) enroll() error { return m.enrollWith(m.w.token(instance)) }

func (m *machine) keep(issued api.IssuedCertificate, err error) error {
	if err != nil {
		return err
	}
	if m.chain, err = testca.Chain(issued.Certificate); err != nil {
		return err
	}
	_, m.serial, err = m.w.PKI.VerifyNode(m.chain, m.w.now, false)
	return err
}

// call makes one request with the certificate.
func (m *machine) call(chain []*x509.Certificate, renewal bool) error {
	id, _, err := m.w.Authenticate(context.Background(), chain, renewal)
	if err == nil && id != m.id {
		m.w.t.Errorf("authenticated as %q, want %q", id, m.id)
	}
	return err
}

// renew asks for a certificate over a new key with the given one; the answer is
// kept unless lost.
func (m *machine) renew(chain []*x509.Certificate, lost bool) error {
	id, serial, err := m.w.Authenticate(context.Background(), chain, true)
	if err != nil {
		return err
	}
	m.key = testca.NewKey()
	issued, err := m.w.Renew(context.Background(), id, serial, api.CertificateRequest{CertificateRequest: testca.Request(m.key, nil)})
	if lost {
		return err
	}
	return m.keep(issued, err)
}

func wantOK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// problemOf checks the type of an error that reaches the client.
func problemOf(t testing.TB, err error, problemType string) api.Problem {
	t.Helper()
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != problemType {
		t.Fatalf("error %v, want the problem %s", err, problemType)
	}
	return *problem
}

func wantProblem(t testing.TB, err error, problemType string) {
	t.Helper()
	problemOf(t, err, problemType)
}
