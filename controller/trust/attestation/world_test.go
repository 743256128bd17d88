package attestation_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	instance = "11111111-0000-4000-8000-000000000001"
	stack    = "22222222-0000-4000-8000-000000000001"
	worker   = "3f0c1d52-aaaa-4000-8000-000000000001"
	master   = "3f0c1d52-aaaa-4000-8000-000000000002"
)

var remote = netip.MustParseAddr("10.10.0.7")

// world is a controller's enrollment before a cloud that has one stack: a worker in an
// autoscaling group, and a master.
type world struct {
	*controllertest.Controller
	t       testing.TB
	cloud   *openstacktest.Cloud
	nova    *attestation.Nova
	token   string
	timeout time.Duration // of a call of the cloud

	mu     sync.Mutex
	events map[string]int
	log    bytes.Buffer
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, cloud: openstacktest.Start(t), events: map[string]int{}, timeout: 10 * time.Second}
	w.Controller = controllertest.New(t, controllertest.Options{Log: w.logger()})
	w.Enrollment.Metrics = observed{w.Enrollment.Metrics, w}
	w.restart(attestation.IfAllowed)
	w.cloud.Put(openstacktest.Server{ID: worker, Addresses: map[string][]string{"lab": {remote.String()}}}, openstacktest.Server{ID: master},
		openstacktest.Stack{ID: stack, Name: "vnf-1", Status: "CREATE_IN_PROGRESS", Resources: []openstacktest.Resource{
			{Name: "masters", Type: "OS::Heat::AutoScalingGroup", PhysicalID: "44444444-0000-4000-8000-000000000001", Nested: []openstacktest.Resource{
				{Name: "abc", Type: "nodehitch-master.yaml", PhysicalID: "44444444-0000-4000-8000-000000000002", Nested: []openstacktest.Resource{
					{Name: "server", Type: "OS::Nova::Server", PhysicalID: master},
				}},
			}},
			{Name: "worker", Type: "OS::Nova::Server", PhysicalID: worker},
		}})
	w.update(func(tx *store.Tx) error {
		if err := w.Enrollment.NewJoinToken(tx, &store.Instance{ID: instance, DesiredVersion: 1, LastVersion: 1}); err != nil {
			return err
		}
		return w.desire(tx, stack)
	})
	var err error
	w.token, err = w.Enrollment.JoinToken(t.Context(), instance)
	wantOK(t, err)
	w.expect(worker, master)
	t.Cleanup(func() {
		w.nova.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	return w
}

// restart is what a restart of the controller does to attestation: it forgets.
func (w *world) restart(policy attestation.Policy) {
	w.t.Helper()
	clouds, err := openstack.New(openstack.Options{CloudsFile: w.cloud.CloudsFile(w.t), Cloud: "fake", Timeout: w.timeout, Log: w.logger()})
	wantOK(w.t, err)
	if w.nova != nil {
		w.nova.Close()
	}
	w.nova = &attestation.Nova{Store: w.Store, Nonce: policy, Now: w.Clock.Now, Log: w.logger(), WithoutNonce: func() { w.observe("without nonce") },
		Cloud: func(ctx context.Context, vim json.RawMessage) (attestation.Cloud, error) { return clouds.For(ctx, vim) }}
	w.Enrollment.Attestor = w.nova
}

// desire puts a desired state with this stack in force.
func (w *world) desire(tx *store.Tx, stackID string) error {
	return tx.Desired().Put(store.DesiredKey(instance, 1), store.Desired{InstanceID: instance, Version: 1, StackID: stackID})
}

func (w *world) expect(ids ...string) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		for _, id := range ids {
			if err := tx.Nodes().Put(id, store.Node{ID: id, InstanceID: instance, Expected: true, Epoch: w.Store.Epoch()}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) update(fn func(*store.Tx) error) {
	w.t.Helper()
	wantOK(w.t, w.Store.Update(fn))
}

func (w *world) identity(id string) *store.Identity {
	w.t.Helper()
	var node store.Node
	wantOK(w.t, w.Store.View(func(tx *store.Tx) (err error) { node, _, err = tx.Nodes().Get(id); return err }))
	return node.Identity
}

// observed are the controller's metrics, with each enrollment's result for the test.
type observed struct {
	enrollment.Metrics
	w *world
}

func (o observed) Enrollment(result string) {
	o.w.observe(result)
	o.Metrics.Enrollment(result)
}

func (w *world) observe(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[event]++
}

func (w *world) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.events)
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(writer{w}, nil)) }

type writer struct{ w *world }

func (l writer) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

// nonce is what the metadata service of the server shows.
func (w *world) nonce(id string) string { return w.cloud.Metadata(id)[api.NonceKey] }

// machine has a key of its own.
type machine struct {
	w   *world
	id  string
	key *ecdsa.PrivateKey
}

func (w *world) boot(id string) *machine {
	return &machine{w, id, testca.NewKey()}
}

func (m *machine) enrollAs(ctx context.Context, from netip.Addr, nonce string) error {
	_, err := m.w.Enrollment.Enroll(ctx, m.w.token, api.EnrollRequest{CertificateRequest: testca.Request(m.key, nil), ServerID: m.id, Nonce: nonce}, from)
	return err
}

func (m *machine) enroll(nonce string) error { return m.enrollAs(context.Background(), remote, nonce) }

func wantOK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantRefusal checks the problem and the reason of a refusal, and is what the machine
// is told.
func wantRefusal(t testing.TB, err error, problemType, reason string) (detail string) {
	t.Helper()
	var refusal *enrollment.Refusal
	if !errors.As(err, &refusal) || refusal.Problem.Type != problemType || refusal.Reason != reason {
		t.Fatalf("%v, want a refusal %s for the reason %s", err, problemType, reason)
	}
	return refusal.Problem.Detail
}

// asked has the machine be asked for the nonce, and is what it then reads.
func (m *machine) asked() string {
	m.w.t.Helper()
	wantRefusal(m.w.t, m.enroll(""), api.ProblemNonceRequired, attestation.EventNonceAsked)
	nonce := m.w.nonce(m.id)
	if len(nonce) != 32 {
		m.w.t.Fatalf("the metadata shows %q, want 128 bits in hexadecimal", nonce)
	}
	return nonce
}
