package event_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// counted notes what is counted.
type counted []string

func (c *counted) OperationEnded(operation, phase, result string) {
	*c = append(*c, fmt.Sprint(operation, " ", phase, " ", result))
}

func (c *counted) OperationTook(operation, phase, result string, took time.Duration) {
	*c = append(*c, fmt.Sprint(operation, " ", phase, " ", result, " took ", took))
}

func (c *counted) NodeReady(role string, after time.Duration) {
	*c = append(*c, fmt.Sprint(role, " Ready after ", after))
}

// expect wants that this has been counted since the last call.
func (w *world) expect(c *counted, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, []string(*c)); diff != "" {
		w.t.Error(diff)
	}
	*c = nil
}

func (w *world) operation(o store.Operation) {
	w.t.Helper()
	w.must(w.store.Update(func(t *store.Tx) error { return t.Operations().Put(store.OperationKey(one, o.Sequence), o) }))
}

func TestTheEndsOfOperationsAreCounted(t *testing.T) {
	w, c := newWorld(t, event.Kept), new(counted)
	w.log.Metrics = c
	begun := w.now
	at := func(after time.Duration) *time.Time { end := begun.Add(after); return &end }
	o := store.Operation{Operation: api.Operation{Sequence: 1, VnfInstanceID: one, Operation: api.Scale, Type: api.ScaleOut, Phase: api.PhaseStart, State: api.Processing, StartedAt: begun}}
	w.operation(o)
	w.expect(c)
	o.State, o.FinishedAt = api.Completed, at(3*time.Second)
	w.operation(o)
	w.expect(c, "SCALE_OUT START completed", "SCALE_OUT START completed took 3s")
	// It awaits its END, which does not come: it is taken back, and was in progress for 3 seconds.
	o.State, o.FinishedAt, o.Error = api.Failed, at(time.Hour), api.NewProblem(api.ProblemInterrupted, "")
	w.operation(o)
	w.expect(c, "SCALE_OUT START failed")

	o = store.Operation{Operation: api.Operation{Sequence: 2, VnfInstanceID: one, Operation: api.Heal, Phase: api.PhaseEnd, State: api.Processing, StartedAt: begun}}
	w.operation(o)
	o.State, o.FinishedAt, o.Error = api.Failed, at(time.Minute), api.NewProblem(api.ProblemCancelled, "")
	w.operation(o)
	w.expect(c, "HEAL END cancelled", "HEAL END cancelled took 1m0s")
	// What is not kept is not counted: its events were derived, and then it was rolled back.
	w.must(w.store.Close())
	var err error
	w.store, err = storetest.Open(w.t, store.Options{Path: w.path(), Key: store.KeySource{File: filepath.Join(w.dir, "seal.key")},
		Derive: func(t *store.Tx) error { return errors.Join(w.log.Derive(t), errors.New("rolled back")) }})
	w.must(err)
	if err := w.store.Update(func(t *store.Tx) error {
		o.State, o.Error = api.Completed, nil
		return t.Operations().Put(store.OperationKey(one, 3), o)
	}); err == nil {
		t.Fatal("not rolled back")
	}
	w.expect(c)
}

func TestTheWayToReadyIsCountedOnce(t *testing.T) {
	w, c := newWorld(t, event.Kept), new(counted)
	w.log.Metrics = c
	n := node(one, 1, "R")
	n.Role, n.Status = api.RoleWorker, nil
	says := func(status api.ConditionStatus) {
		w.t.Helper()
		n.StatusOf = n.Identity.EnrolledAt
		n.Status = &api.NodeStatus{Conditions: []api.Condition{{Type: api.ConditionReady, Status: status, Reason: string(status)}}}
		w.put(n) // a second later
	}
	enrolls := func() {
		w.t.Helper()
		w.put(n)
		n.Identity = &store.Identity{Serial: fmt.Sprint(w.now), EnrolledAt: w.now}
		w.put(n)
	}
	enrolls()
	says(api.ConditionFalse)
	w.expect(c)
	says(api.ConditionTrue)
	w.expect(c, "worker Ready after 3s")
	says(api.ConditionFalse)
	says(api.ConditionTrue) // not for the first time
	w.expect(c)
	enrolls() // anew, and is Ready at once
	says(api.ConditionTrue)
	w.expect(c, "worker Ready after 2s")
	enrolls()
	n.Identity = &store.Identity{Serial: "revoked", EnrolledAt: n.Identity.EnrolledAt, RevokedAt: &w.now}
	w.put(n)
	says(api.ConditionTrue) // which it was before it was revoked
	w.expect(c)
	enrolls()
	w.restart()
	w.log.Metrics = c
	says(api.ConditionTrue) // it may have been Ready before
	w.expect(c)
}

// Nodes that come and go leave nothing behind.
func TestCountingKeepsNoNode(t *testing.T) {
	w, c := newWorld(t, event.Kept), new(counted)
	w.log.Metrics = c
	for i := range 10 {
		n := node(one, i, "R")
		n.Identity = &store.Identity{Serial: "1", EnrolledAt: w.now}
		w.put(n)
		switch i % 3 {
		case 0:
			n.Status.Conditions[0].Status = api.ConditionTrue
			w.put(n)
		case 1:
			revoked := w.now
			n.Identity = &store.Identity{Serial: "1", EnrolledAt: n.Identity.EnrolledAt, RevokedAt: &revoked}
			w.put(n)
		default:
			w.must(w.store.Update(func(t *store.Tx) error { return t.Nodes().Delete(n.ID) }))
		}
	}
	if left := w.log.Enrolled(); len(left) > 0 {
		t.Errorf("kept: %v", left)
	}
}
