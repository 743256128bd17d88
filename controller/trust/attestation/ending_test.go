package attestation_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The item is left, and the machine is in all the same.
func TestANonceThatCannotBeTakenAway(t *testing.T) {
	w := newWorld(t)
	w.cloud.Deny(openstacktest.DeleteMetadata)
	m := w.boot(worker)
	spent := m.asked()
	wantOK(t, m.enroll(spent))
	w.until("the log says so", func() bool { return w.logged("is still in its Nova metadata") == 1 })
	w.reenroll()
	again := w.boot(worker)
	if err := again.enroll(spent); err == nil {
		t.Fatal("a nonce was good twice")
	}
	w.Clock.Advance(failureCounts)
	wantOK(t, again.enroll(again.asked()))
}

// blockedCloud is a cloud in which a call of Nova lasts until release is closed.
type blockedCloud struct {
	attestation.Cloud
	call           string
	begun, release chan struct{}
}

// blockCloud makes the next cloud that is asked for block a call.
func (w *world) blockCloud(call string) *blockedCloud {
	h := &blockedCloud{call: call, begun: make(chan struct{}, 100), release: make(chan struct{})}
	of := w.nova.Cloud
	w.nova.Cloud = func(ctx context.Context, vim json.RawMessage) (attestation.Cloud, error) {
		cloud, err := of(ctx, vim)
		return &blockedCloud{cloud, h.call, h.begun, h.release}, err
	}
	return h
}

func (h *blockedCloud) wait(ctx context.Context, call string) error {
	if call != h.call {
		return nil
	}
	h.begun <- struct{}{}
	select {
	case <-h.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *blockedCloud) Server(ctx context.Context, id string) (openstack.Server, error) {
	if err := h.wait(ctx, openstacktest.ServerByID); err != nil {
		return openstack.Server{}, err
	}
	return h.Cloud.Server(ctx, id)
}

func (h *blockedCloud) DeleteMetadata(ctx context.Context, id, key string) error {
	if err := h.wait(ctx, openstacktest.DeleteMetadata); err != nil {
		return err
	}
	return h.Cloud.DeleteMetadata(ctx, id, key)
}

// An operator lets the machine enroll again while its nonce is still being deleted: the
// next nonce is written after that, and so stays.
func TestTheNextNonceOutlivesTheEndOfTheLast(t *testing.T) {
	w := newWorld(t)
	h := w.blockCloud(openstacktest.DeleteMetadata)
	m := w.boot(worker)
	wantOK(t, m.enroll(m.asked()))
	<-h.begun
	w.reenroll()
	again, result := w.boot(worker), make(chan error, 1)
	go func() { result <- again.enroll("") }()
	select {
	case err := <-result:
		t.Errorf("the next nonce did not wait: %v", err)
		result <- err
	case <-time.After(100 * time.Millisecond):
	}
	close(h.release)
	wantRefusal(t, <-result, api.ProblemNonceRequired, attestation.EventNonceAsked)
	w.nova.Close() // deletions have ended
	wantOK(t, again.enroll(w.nonce(worker)))
}

// A controller that ends does not wait for a cloud that hangs.
func TestTheEndDoesNotWaitForTheCloud(t *testing.T) {
	w := newWorld(t)
	h := w.blockCloud(openstacktest.DeleteMetadata)
	m := w.boot(worker)
	wantOK(t, m.enroll(m.asked()))
	<-h.begun
	begun := time.Now()
	w.nova.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A machine hangs up while the cloud is asked for it: the others that wait get the result.
func TestAMachineThatHangsUp(t *testing.T) {
	w := newWorld(t)
	h := w.blockCloud(openstacktest.ServerByID)
	ctx, hangUp := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- w.boot(worker).enrollAs(ctx, remote, "") }()
	<-h.begun
	go func() { second <- w.boot(worker).enroll("") }()
	hangUp()
	if err := <-first; err == nil {
		t.Error("it is in")
	}
	close(h.release)
	wantRefusal(t, <-second, api.ProblemNonceRequired, attestation.EventNonceAsked)
	if n := w.cloud.Calls()[openstacktest.ServerByID]; n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A cloud that hangs costs an enrollment its whole timeout, and no other enrollment anything
// beyond that; when it answers again all is as before.
func TestACloudThatHangs(t *testing.T) {
	w := newWorld(t)
	w.timeout = 3 * time.Second
	w.restart(attestation.IfAllowed)
	w.cloud.Fail(openstacktest.ServerByID, openstacktest.Fault{Delay: time.Minute})
	begun := time.Now()
	results := make(chan error, 20)
	for range cap(results) {
		m := w.boot(worker)
		go func() { results <- m.enroll("") }()
	}
	for range cap(results) {
		if err := <-results; err == nil {
			t.Error("a server has enrolled")
		}
	}
	if took := time.Since(begun); took > 25*time.Second {
		t.Errorf("all have an answer after %v; an agent waits for 30 s", took)
	}
	w.cloud.Fail(openstacktest.ServerByID, openstacktest.Fault{})
	w.Clock.Advance(failureCounts)
	m := w.boot(worker)
	wantOK(t, m.enroll(m.asked()))
}

func (w *world) reenroll() {
	w.t.Helper()
	wantOK(w.t, w.Enrollment.Reenroll(w.t.Context(), worker))
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			w.t.Fatalf("it never came to: %s", what)
		case <-tick.C:
		}
	}
}
