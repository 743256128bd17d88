package attestation_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/openstack/openstacktest"
)

// The item is left, and the machine is in all the same.
func TestANonceThatCannotBeTakenAway(t *testing.T) {
	w := newWorld(t)
	w.cloud.Deny(openstacktest.DeleteMetadata)
	m := w.boot(worker)
	spent := m.asked()
	wantOK(t, m.enrol(spent))
	w.until("the log says so", func() bool { return w.logged("is left in its Nova metadata") == 1 })
	w.reenrol()
	again := w.boot(worker)
	if err := again.enrol(spent); err == nil {
		t.Fatal("a nonce was good twice")
	}
	w.pass(failureCounts)
	wantOK(t, again.enrol(again.asked()))
}

// An operator lets the machine enrol again while its nonce is still being deleted: the
// next nonce is written after that, and so stays.
func TestTheNextNonceOutlivesTheEndOfTheLast(t *testing.T) {
	w := newWorld(t)
	w.cloud.Fail(openstacktest.DeleteMetadata, openstacktest.Fault{Delay: 300 * time.Millisecond})
	m := w.boot(worker)
	wantOK(t, m.enrol(m.asked()))
	w.until("the deletion is under way", func() bool { return w.cloud.Calls()[openstacktest.DeleteMetadata] == 1 })
	w.reenrol()
	again := w.boot(worker)
	wantOK(t, again.enrol(again.asked()))
	w.until("that one is gone too", func() bool { return w.nonce(worker) == "" })
}

// A controller that ends does not wait for a cloud that hangs.
func TestTheEndDoesNotWaitForTheCloud(t *testing.T) {
	w := newWorld(t)
	w.cloud.Fail(openstacktest.DeleteMetadata, openstacktest.Fault{Delay: time.Minute})
	m := w.boot(worker)
	wantOK(t, m.enrol(m.asked()))
	w.until("the deletion hangs", func() bool { return w.cloud.Calls()[openstacktest.DeleteMetadata] == 1 })
	begun := time.Now()
	w.nova.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A cloud that hangs costs an enrolment its patience, and no other enrolment anything
// beyond that; when it answers again all is as before.
func TestACloudThatHangs(t *testing.T) {
	w := newWorld(t)
	w.cloud.Fail(openstacktest.ServerByID, openstacktest.Fault{Delay: time.Minute})
	begun := time.Now()
	results := make(chan error, 20)
	for range cap(results) {
		m := w.boot(worker)
		go func() { results <- m.enrol("") }()
	}
	for range cap(results) {
		if err := <-results; err == nil {
			t.Error("somebody has enrolled")
		}
	}
	if took := time.Since(begun); took > 21*time.Second {
		t.Errorf("all have an answer after %v; an agent waits for 30 s", took)
	}
	w.cloud.Fail(openstacktest.ServerByID, openstacktest.Fault{})
	w.pass(failureCounts)
	m := w.boot(worker)
	wantOK(t, m.enrol(m.asked()))
}

func (w *world) reenrol() {
	w.t.Helper()
	wantOK(w.t, w.enrolment.Reenrol(w.t.Context(), worker))
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
