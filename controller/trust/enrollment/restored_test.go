package enrollment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// restored begins another epoch with the state as it is.
func (w *world) restored() {
	w.t.Helper()
	_, err := w.Store.BeginEpoch(store.NewEpoch{From: store.Origin{TakenAt: w.now.Add(-time.Hour), RestoredAt: w.now}})
	wantOK(w.t, err)
}

// forget takes away what the store learned of the server after the backup.
func (w *world) forget(id string, backup store.Node) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error { return tx.Nodes().Put(id, backup) })
}

func (w *world) confirmed(id string) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		node, _, err := tx.Nodes().Get(id)
		node.Epoch = w.Store.Epoch()
		return errors.Join(err, tx.Nodes().Put(id, node))
	})
}

func TestAnUnconfirmedNodeIsToldToWait(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.restored()
	problem := problemOf(t, m.call(m.chain, false), api.ProblemRestoreUnconfirmed)
	if problem.Status != 503 || problem.Commands() != "`hitchctl confirm instance "+instance+"`" || !strings.Contains(problem.Detail, "2026") {
		t.Errorf("it is told %d %s", problem.Status, problem.Detail)
	}
	wantProblem(t, m.renew(m.chain, false), api.ProblemRestoreUnconfirmed)
	wantProblem(t, m.enroll(), api.ProblemRestoreUnconfirmed)
	if nodeID, _, err := w.Authenticate(context.Background(), m.chain, false); nodeID != server || err == nil {
		t.Errorf("who calls is %q, %v", nodeID, err)
	}
	// One that was let in a moment before the restore gets nothing after it.
	_, err := w.Renew(context.Background(), server, m.serial, api.CertificateRequest{CertificateRequest: testca.Request(m.key, nil)})
	wantProblem(t, err, api.ProblemRestoreUnconfirmed)
	w.confirmed(server)
	wantOK(t, m.call(m.chain, false))
}

// A controller was away for days, then restored: agents with an expired certificate
// are not sent to enroll anew, which is refused now.
func TestAnExpiredCertificateWaitsToo(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	w.now = m.chain[0].NotAfter.Add(3 * 24 * time.Hour)
	w.restored()
	wantProblem(t, m.call(m.chain, false), api.ProblemRestoreUnconfirmed)
	wantProblem(t, m.renew(m.chain, false), api.ProblemRestoreUnconfirmed)
	w.confirmed(server)
	wantProblem(t, m.call(m.chain, false), api.ProblemUnauthorized)
	wantOK(t, m.renew(m.chain, false))
	wantOK(t, m.call(m.chain, false))
}

func TestTheCertificateIssuedLastIsLearned(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	backup, first := w.node(server), m.chain
	w.now = w.now.Add(16 * time.Hour)
	wantOK(t, m.renew(first, false))
	wantOK(t, m.call(m.chain, false))
	w.restored()
	w.forget(server, backup)
	for range 2 { // in any order
		wantProblem(t, m.call(m.chain, false), api.ProblemRestoreUnconfirmed)
		wantProblem(t, m.call(first, false), api.ProblemRestoreUnconfirmed)
	}
	w.confirmed(server)
	wantProblem(t, m.call(first, false), api.ProblemUnauthorized)
	wantOK(t, m.call(m.chain, false))
	wantOK(t, m.enroll()) // with its key, which was learned too
}

func TestNothingIsLearnedOfWhoWasRevoked(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	wantOK(t, w.Revoke(context.Background(), server, "stolen"))
	backup := w.node(server)
	wantOK(t, w.Reenroll(context.Background(), server))
	w.now = w.now.Add(time.Minute)
	wantOK(t, m.enroll())
	w.restored()
	w.forget(server, backup)
	wantProblem(t, m.call(m.chain, false), api.ProblemRevoked)
	w.confirmed(server)
	wantProblem(t, m.call(m.chain, false), api.ProblemRevoked)
	wantProblem(t, m.enroll(), api.ProblemRevoked)
}

// After the confirmation it is too late: an operator has seen who was there.
func TestNothingIsLearnedAfterTheConfirmation(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	backup := w.node(server)
	w.now = w.now.Add(16 * time.Hour)
	wantOK(t, m.renew(m.chain, false))
	w.restored()
	w.forget(server, backup)
	w.confirmed(server)
	wantProblem(t, m.call(m.chain, false), api.ProblemUnauthorized)
}
