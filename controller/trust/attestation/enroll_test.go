package attestation_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestServersOfTheStackEnroll(t *testing.T) {
	for name, id := range map[string]string{"in the stack itself": worker, "in a stack nested in one nested in it": master} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := w.boot(id)
			nonce := m.asked()
			wantOK(t, m.enroll(nonce))
			if got := w.identity(id).Attestation; got != api.AttestedByNonce {
				t.Errorf("attested %q", got)
			}
			w.gone(id)
			if diff := cmp.Diff(map[string]int{attestation.EventNonceAsked: 1, "enrolled": 1}, w.counted()); diff != "" {
				t.Error(diff)
			}
			if n := w.logged("event=" + api.EventNodeEnrolled); n != 1 {
				t.Errorf("the log has the enrollment %d times", n)
			}
			if w.logged(nonce) != 0 {
				t.Error("the nonce is in the log")
			}
		})
	}
}

// gone waits until the nonce is out of the server's metadata.
func (w *world) gone(id string) {
	w.t.Helper()
	w.until("the nonce is out of the metadata", func() bool { return w.nonce(id) == "" })
}

// The figures are those of Nova's comment.
func TestCallsOfAnEnrollment(t *testing.T) {
	all := map[string]int{openstacktest.Login: 1, openstacktest.Stacks: 1, openstacktest.ServerByID: 1, openstacktest.Resources: 1,
		openstacktest.SetMetadata: 1, openstacktest.DeleteMetadata: 1}
	for name, c := range map[string]struct {
		shows time.Duration // until the metadata service shows the nonce
		more  map[string]int
	}{
		"at once":                  {time.Second, nil},
		"after Nova's cache":       {15 * time.Second, map[string]int{openstacktest.ServerByID: 1}},
		"after more than that":     {90 * time.Second, map[string]int{openstacktest.ServerByID: 1, openstacktest.Resources: 1}},
		"by the name of the stack": {time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if name == "by the name of the stack" {
				w.update(func(tx *store.Tx) error { return w.desire(tx, "vnf-1") })
			}
			m := w.boot(worker)
			nonce := m.asked()
			w.Clock.Advance(c.shows)
			wantOK(t, m.enroll(nonce))
			w.gone(worker)
			want := maps.Clone(all)
			for call, n := range c.more {
				want[call] += n
			}
			if diff := cmp.Diff(want, w.cloud.Calls()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The second server of a stack costs no call for the stack, nor for a token.
func TestTheStackIsAskedForOnce(t *testing.T) {
	w := newWorld(t)
	wantOK(t, w.boot(worker).enroll(w.boot(worker).asked()))
	w.gone(worker)
	w.cloud.Forget()
	wantOK(t, w.boot(master).enroll(w.boot(master).asked()))
	w.gone(master)
	want := map[string]int{openstacktest.ServerByID: 1, openstacktest.Resources: 1, openstacktest.SetMetadata: 1, openstacktest.DeleteMetadata: 1}
	if diff := cmp.Diff(want, w.cloud.Calls()); diff != "" {
		t.Error(diff)
	}
}

// The controller's answer was lost: the machine has the key that was certified, and is
// let in whatever the cloud is like now.
func TestALostAnswerNeedsNoCloud(t *testing.T) {
	w := newWorld(t)
	m := w.boot(worker)
	wantOK(t, m.enroll(m.asked()))
	w.gone(worker)
	w.cloud.Remove(worker)
	w.Clock.Advance(time.Minute)
	w.cloud.Forget()
	wantOK(t, m.enroll(""))
	if calls := w.cloud.Calls(); len(calls) != 0 || w.identity(worker).Attestation != api.AttestedByNonce {
		t.Errorf("%v, attested %q", calls, w.identity(worker).Attestation)
	}
}

// A machine that has the token and asks all the time does not load the cloud.
func TestAsksInACrowd(t *testing.T) {
	w := newWorld(t)
	first := w.boot(worker).asked()
	results := make(chan error, 100)
	for range cap(results) {
		m := w.boot(worker)
		go func() { results <- m.enroll("00112233445566778899aabbccddeeff") }()
	}
	for range cap(results) {
		wantRefusal(t, <-results, api.ProblemNonceRequired, attestation.EventNonceWrong)
	}
	want := map[string]int{openstacktest.Login: 1, openstacktest.Stacks: 1, openstacktest.ServerByID: 1, openstacktest.Resources: 1, openstacktest.SetMetadata: 1}
	if diff := cmp.Diff(want, w.cloud.Calls()); diff != "" {
		t.Error(diff)
	}
	if w.nonce(worker) != first {
		t.Error("the nonce has changed")
	}
}

// The same from cold: the first hundred come at once.
func TestAColdCrowd(t *testing.T) {
	w := newWorld(t)
	results := make(chan error, 100)
	for range cap(results) {
		m := w.boot(worker)
		go func() { results <- m.enroll("") }()
	}
	for range cap(results) {
		wantRefusal(t, <-results, api.ProblemNonceRequired, attestation.EventNonceAsked)
	}
	for call, n := range w.cloud.Calls() {
		if n != 1 {
			t.Errorf("%d times %s", n, call)
		}
	}
}
