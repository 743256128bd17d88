package enrollment

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// attestor accepts every server that try does not refuse.
type attestor struct {
	try      func(node store.Node) error
	asked    int
	enrolled []string
}

func (a *attestor) Attest(_ context.Context, node store.Node, _ api.EnrollRequest, _ netip.Addr) (api.Attestation, error) {
	a.asked++
	return api.AttestedByNova, a.try(node)
}

func (a *attestor) Enrolled(node store.Node) { a.enrolled = append(a.enrolled, node.ID) }

func TestAttestationRefuses(t *testing.T) {
	w := newWorld(t)
	a := &attestor{try: func(node store.Node) error {
		return &Refusal{Problem: api.NewProblem(api.ProblemNotAttested, node.ID+" is not ACTIVE"), Reason: "attest_status", Found: errors.New("SHUTOFF")}
	}}
	w.Attestor = a
	problem := problemOf(t, w.boot(server).enroll(), api.ProblemNotAttested)
	if problem.Detail != server+" is not ACTIVE" {
		t.Errorf("the machine is told %q", problem.Detail)
	}
	if w.node(server).Identity != nil || len(a.enrolled) != 0 {
		t.Error("a refused server has an identity")
	}
	if diff := cmp.Diff(map[string]int{"attest_status": 1}, w.events); diff != "" {
		t.Error(diff)
	}
	a.try = func(store.Node) error { return api.NewProblem(api.ProblemForbidden, "") }
	wantProblem(t, w.boot(server).enroll(), api.ProblemForbidden)
	if w.events[EventRefused] != 1 {
		t.Errorf("events %v", w.events)
	}
}

// What attested a node stays with its identity, and is asked for again only of another
// machine.
func TestAttestationIsKept(t *testing.T) {
	w := newWorld(t)
	a := &attestor{try: func(store.Node) error {
		if w.node(server).Identity.Live() {
			t.Error("asked of a machine that is in")
		}
		return nil
	}}
	w.Attestor = a
	attested := func(when string, asked int, want api.Attestation) {
		t.Helper()
		if got := w.node(server).Identity.Attestation; got != want || a.asked != asked || len(a.enrolled) < asked {
			t.Errorf("%s: attested %q, asked %d times, told of %v", when, got, a.asked, a.enrolled)
		}
	}
	m := w.boot(server)
	wantOK(t, m.enroll())
	attested("enrolled", 1, api.AttestedByNova)
	wantOK(t, m.enroll())
	attested("a lost answer", 1, api.AttestedByNova)
	wantOK(t, m.call(m.chain, false))
	wantOK(t, m.renew(m.chain, false))
	wantOK(t, m.call(m.chain, false))
	attested("renewed", 1, api.AttestedByNova)
	backup := w.node(server)
	w.now = w.now.Add(16 * time.Hour)
	wantOK(t, m.renew(m.chain, false))
	w.restored()
	w.forget(server, backup)
	wantProblem(t, m.call(m.chain, false), api.ProblemRestoreUnconfirmed)
	w.confirmed(server)
	wantOK(t, m.call(m.chain, false))
	attested("learned after a restore", 1, api.AttestedByNova)
	wantProblem(t, w.boot(server).enroll(), api.ProblemIdentityLive)
	attested("a thief", 1, api.AttestedByNova)
	wantOK(t, w.Reenroll(context.Background(), server))
	wantOK(t, m.enroll()) // the same key, which is no proof any more
	attested("let in again", 2, api.AttestedByNova)
	wantOK(t, w.Reenroll(context.Background(), server))
	w.Attestor = nil
	wantOK(t, w.boot(server).enroll())
	attested("by the token", 2, api.AttestedByToken)
}

// The identity is ended for re-enrollment between the two reads of it: the key of before
// is no proof any more.
func TestAKnownKeyThatIsGivenUpAtThisMoment(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	looks := 0
	w.Now = func() time.Time {
		if looks++; looks == 2 { // by now the record was read
			wantOK(t, w.Reenroll(context.Background(), server))
		}
		return w.now
	}
	wantProblem(t, m.enroll(), api.ProblemUnavailable)
	if looks < 2 || w.node(server).Identity.Live() {
		t.Errorf("after %d reads of the clock: %+v", looks, w.node(server).Identity)
	}
}
