// Package completion decides when an operation in progress is over by itself: whether it is
// COMPLETED or FAILED, and what is in force once a START is taken back. Who may end it earlier,
// by a cancel or another operation, package operation decides. Callers ask it in the transaction in
// which everything that it reads was written, so that nothing changes in between. It plans
// nothing: package reconcile plans before it asks, and after a START is taken back.
package completion

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Evaluator evaluates operations in progress. Its fields are set before use; its methods may be
// called at the same time.
type Evaluator struct {
	Presence *presence.Presence
	Log      *slog.Logger
	// FailureGrace is for how long nothing changes before an END fails whose targets no
	// waiting makes ready. UpSince is when the controller started.
	FailureGrace time.Duration
	UpSince      time.Time
}

// Evaluate finishes the operation in progress if it is done or has failed. changed are the nodes
// whose documents were changed on its behalf just now: an END waits for them too. If takenBack,
// another desired state is in force, and the caller plans it.
func (e *Evaluator) Evaluate(t *tx.Tx, changed []string) (takenBack bool, err error) {
	op, err := inProgress(t)
	switch {
	case err != nil || op == nil:
		return false, err
	case op.Phase == api.PhaseStart:
		return e.evaluateStart(t, *op)
	}
	old := *op
	ids := TargetIDs(op.Targets)
	for _, id := range changed {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if op.Targets, op.Withheld, err = Targets(t, ids); err != nil {
		return false, err
	}
	return false, e.finishOrSave(t, *op, !store.Same(old, *op))
}

// EvaluateNode is Evaluate if nothing but the report of this node has changed.
func (e *Evaluator) EvaluateNode(t *tx.Tx, n store.Node) (takenBack bool, err error) {
	op, err := inProgress(t)
	switch {
	case err != nil || op == nil:
		return false, err
	case op.Phase == api.PhaseStart:
		return e.evaluateStart(t, *op)
	}
	i := slices.IndexFunc(op.Targets, func(target api.OperationTarget) bool { return target.NodeID == n.ID })
	if i < 0 {
		if slices.ContainsFunc(op.Targets, func(target api.OperationTarget) bool { return target.WaitsFor == n.ID }) {
			return false, e.finishOrSave(t, *op, false)
		}
		return false, nil
	}
	before := op.Targets[i]
	op.Targets[i] = progress.Target(n, t.Store.Epoch())
	return false, e.finishOrSave(t, *op, op.Targets[i] != before)
}

// inProgress is the operation in progress, nil for none.
func inProgress(t *tx.Tx) (*store.Operation, error) {
	if t.Instance.ProcessingSequence == 0 {
		return nil, nil
	}
	op, err := t.Operation(t.Instance.ProcessingSequence)
	return &op, err
}

// finishOrSave finishes an END if none of its targets is waited for any more or its time
// is over; otherwise it saves what was evaluated anew. changed says that a target has
// changed.
func (e *Evaluator) finishOrSave(t *tx.Tx, op store.Operation, changed bool) error {
	if !slices.ContainsFunc(op.Targets, func(target api.OperationTarget) bool { return !target.Ready }) {
		return e.Finish(t, &op, api.Completed)
	}
	causes, err := awaited(t, op.Targets)
	if err != nil {
		return err
	}
	all, since := slices.Concat(causes, op.Targets), op.StuckSince
	switch stuck := progress.Stuck(all); {
	case !stuck:
		op.StuckSince = time.Time{}
	case changed || since.IsZero():
		op.StuckSince = t.Now
	}
	switch {
	case !t.Now.Before(e.FailsAt(op)):
		return e.failEnd(t, op, all)
	case changed || !op.StuckSince.Equal(since):
		return t.SaveOperation(op)
	}
	return nil
}

// failEnd fails an END whose time is over. all are its targets and what these wait for.
func (e *Evaluator) failEnd(t *tx.Tx, op store.Operation, all []api.OperationTarget) error {
	op.Targets = progress.ByCause(op.Targets)
	waiting := progress.Waiting(progress.ByCause(all))
	stranded := op.PersistentVolumes == api.KeepPersistentVolumes &&
		slices.ContainsFunc(all, func(t api.OperationTarget) bool { return t.Reason == api.ReasonSourceImmutable })
	if stranded {
		op.Error = api.NewProblem(api.ProblemVolumesStranded, waiting+
			". Nothing was deleted: give the storage server the address that they point to and post the END again, or delete the claims and heal with withdraw")
	} else if t.Now.Before(op.Deadline) {
		op.Error = api.NewProblem(api.ProblemTargetsFailed, fmt.Sprintf(
			"%s. No waiting mends this, and nothing has changed for %s: mend it, then post the operation again",
			waiting, t.Now.Sub(op.StuckSince).Round(time.Second)))
	} else {
		op.Error = api.NewProblem(api.ProblemDeadline, fmt.Sprintf(
			"after %s these nodes were not ready: %s. They continue to converge; post the operation again to wait for them",
			op.Deadline.Sub(op.StartedAt), waiting))
	}
	return e.Finish(t, &op, api.Failed)
}

// FailsAt is when an operation in progress fails unless its targets change: at its
// deadline or, if no waiting makes them ready, after the grace. Nodes that have mended
// something while the controller was down first have the time to report it.
func (e *Evaluator) FailsAt(op store.Operation) time.Time {
	if op.StuckSince.IsZero() {
		return op.Deadline
	}
	at := op.StuckSince.Add(e.FailureGrace)
	if reported := e.UpSince.Add(api.LongestRetry); at.Before(reported) {
		at = reported
	}
	if op.Deadline.Before(at) {
		return op.Deadline
	}
	return at
}

// awaited are the nodes that targets wait for and that are no targets themselves.
func awaited(t *tx.Tx, targets []api.OperationTarget) ([]api.OperationTarget, error) {
	var ids []string
	for _, target := range targets {
		if id := target.WaitsFor; id != "" && !slices.Contains(ids, id) &&
			!slices.ContainsFunc(targets, func(other api.OperationTarget) bool { return other.NodeID == id }) {
			ids = append(ids, id)
		}
	}
	list, _, err := Targets(t, ids)
	return list, err
}

// Targets is the status of nodes as targets, and what is withheld from them. A node that
// the topology in force no longer has is no target any more.
func Targets(t *tx.Tx, ids []string) ([]api.OperationTarget, []api.Withheld, error) {
	targets, withheld := []api.OperationTarget{}, []api.Withheld{}
	for _, id := range ids {
		n, found, err := t.Nodes().Get(id)
		if err != nil {
			return nil, nil, err
		}
		if !found || !n.Expected || n.InstanceID != t.Instance.ID {
			continue
		}
		targets = append(targets, progress.Target(n, t.Store.Epoch()))
		withheld = append(withheld, n.Withheld...)
	}
	return targets, withheld, nil
}

// TargetIDs are the node ids of targets.
func TargetIDs(targets []api.OperationTarget) []string {
	var ids []string
	for _, t := range targets {
		ids = append(ids, t.NodeID)
	}
	return ids
}
