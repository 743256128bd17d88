package enrollment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestRenewalEndsTheOldCertificateWithTheFirstCall(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	old := m.chain
	w.now = w.now.Add(16 * time.Hour)
	wantOK(t, m.renew(old, false))
	wantOK(t, m.call(old, false)) // the new one may have been lost on the way
	wantOK(t, m.call(m.chain, false))
	wantProblem(t, m.call(old, false), api.ProblemUnauthorized)
	wantProblem(t, m.renew(old, false), api.ProblemUnauthorized)
	if w.events["renewal"] != 1 {
		t.Errorf("events %v", w.events)
	}
}

// What applies to enrollment applies to the key that was certified last.
func TestRenewalIsRecorded(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	first := *m
	w.now = w.now.Add(16 * time.Hour)
	wantOK(t, m.renew(m.chain, false))
	if got := w.node(server).Identity.NotAfter; !got.Equal(m.chain[0].NotAfter) {
		t.Errorf("recorded until %s, issued until %s", got, m.chain[0].NotAfter)
	}
	wantProblem(t, first.enroll(), api.ProblemIdentityLive)
	wantOK(t, m.enroll())
}

// A request that was let in a moment before the revocation gets nothing after it.
func TestRenewalLosesTheRaceWithRevocation(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	wantOK(t, w.Revoke(context.Background(), server, "stolen"))
	_, err := w.Renew(context.Background(), server, m.serial, api.CertificateRequest{CertificateRequest: testca.Request(m.key, nil)})
	wantProblem(t, err, api.ProblemRevoked)
}

func TestRenewalAnswersMayBeLost(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	old := m.chain
	for range 3 {
		wantOK(t, m.renew(old, true))
	}
	wantOK(t, m.renew(old, false))
	wantOK(t, m.call(m.chain, false))
	wantProblem(t, m.call(old, false), api.ProblemUnauthorized)
}

func TestASuspendedMachineRenews(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.now = m.chain[0].NotAfter.Add(29 * 24 * time.Hour)
	problem := problemOf(t, m.call(m.chain, false), api.ProblemUnauthorized)
	if !strings.Contains(problem.Detail, "expired") {
		t.Errorf("detail %q", problem.Detail)
	}
	wantOK(t, m.renew(m.chain, false))
	wantOK(t, m.call(m.chain, false))
	w.now = m.chain[0].NotAfter.Add(31 * 24 * time.Hour)
	wantProblem(t, m.renew(m.chain, false), api.ProblemUnauthorized)
}

func TestRevocationCountsAtOnceAndOnce(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.changed = nil
	wantOK(t, w.Revoke(context.Background(), server, "key was copied"))
	problem := problemOf(t, m.call(m.chain, false), api.ProblemRevoked)
	if !strings.Contains(problem.Detail, "key was copied") {
		t.Errorf("detail %q", problem.Detail)
	}
	wantProblem(t, m.renew(m.chain, false), api.ProblemRevoked)
	wantProblem(t, m.enroll(), api.ProblemRevoked)

	w.now = w.now.Add(time.Hour)
	before := w.node(server)
	wantOK(t, w.Revoke(context.Background(), server, "again"))
	if diff := cmp.Diff(before, w.node(server)); diff != "" {
		t.Errorf("the second revocation changed the record:\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{server}, {server}}, [][]string{w.changed, w.gone}); diff != "" {
		t.Errorf("changed and gone: %s", diff)
	}
	wantProblem(t, w.Revoke(context.Background(), "no-such-node", ""), api.ProblemNotFound)
}

func TestAServerRevokedBeforeItEnrollsStaysOut(t *testing.T) {
	w := newWorld(t)
	wantOK(t, w.Revoke(context.Background(), server, "unknown machine"))
	wantProblem(t, w.boot(server).enroll(), api.ProblemRevoked)
	wantOK(t, w.Reenroll(context.Background(), server))
	wantOK(t, w.boot(server).enroll())
}

// A topology that forgot the server is put right: no operator has to say more.
func TestAServerThatComesBackIntoTheTopology(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.expect(server, instance, false)
	w.update(func(tx *store.Tx) error { return w.RevokeTx(tx, server, "not in the topology") })
	wantProblem(t, m.call(m.chain, false), api.ProblemRevoked)
	wantProblem(t, m.enroll(), api.ProblemServerNotExpected)
	w.expect(server, instance, true)
	old := m.chain
	wantOK(t, m.enroll())
	wantOK(t, m.call(m.chain, false))
	wantProblem(t, m.call(old, false), api.ProblemUnauthorized)

	// An operator's word outweighs that.
	w.update(func(tx *store.Tx) error { return w.RevokeTx(tx, server, "not in the topology") })
	wantOK(t, w.Revoke(context.Background(), server, "stolen"))
	wantProblem(t, m.enroll(), api.ProblemRevoked)
}

func TestARebuiltServerEnrollsOnce(t *testing.T) {
	w := newWorld(t)
	old, rebuilt := w.boot(server), w.boot(server)
	wantOK(t, old.enroll())
	wantOK(t, w.Reenroll(context.Background(), server))
	wantOK(t, w.Reenroll(context.Background(), server)) // again changes nothing
	wantProblem(t, old.call(old.chain, false), api.ProblemRevoked)
	if diff := cmp.Diff([]string{server}, w.gone); diff != "" {
		t.Errorf("gone: %s", diff)
	}
	if n := w.events["revocation"]; n != 1 {
		t.Errorf("%d revocations were counted, want 1", n)
	}
	wantOK(t, rebuilt.enroll())
	wantOK(t, rebuilt.call(rebuilt.chain, false))
	wantOK(t, rebuilt.enroll()) // its answer was lost
	wantProblem(t, w.boot(server).enroll(), api.ProblemIdentityLive)
	wantProblem(t, old.call(old.chain, false), api.ProblemUnauthorized)

	wantOK(t, w.Reenroll(context.Background(), server))
	wantOK(t, w.Revoke(context.Background(), server, "changed my mind"))
	wantProblem(t, w.boot(server).enroll(), api.ProblemRevoked)

	w.expect(server, instance, false)
	wantProblem(t, w.Reenroll(context.Background(), server), api.ProblemConflict)
	wantProblem(t, w.Reenroll(context.Background(), "no-such-node"), api.ProblemNotFound)
}

func TestRevocationIsPartOfTheCallersTransaction(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.changed = nil
	boom := errors.New("boom")
	err := w.Store.Update(func(tx *store.Tx) error { return errors.Join(w.RevokeTx(tx, server, "gone"), boom) })
	if !errors.Is(err, boom) || len(w.changed) != 0 {
		t.Errorf("%v; told of %v", err, w.changed)
	}
	wantOK(t, m.call(m.chain, false))
	w.update(func(tx *store.Tx) error {
		return errors.Join(w.RevokeTx(tx, server, "gone"), w.RevokeTx(tx, "never-was", "gone"))
	})
	wantProblem(t, m.call(m.chain, false), api.ProblemRevoked)
	if diff := cmp.Diff([]string{server}, w.changed); diff != "" {
		t.Error(diff)
	}
}

func TestACertificateOfADeletedInstance(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.update(func(tx *store.Tx) error { return tx.Nodes().Delete(server) })
	wantProblem(t, m.call(m.chain, false), api.ProblemRevoked)
	wantProblem(t, m.call(nil, false), api.ProblemUnauthorized)
}
