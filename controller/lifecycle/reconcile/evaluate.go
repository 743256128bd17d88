package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Evaluate finishes the operation in progress if it is done or has failed, in the
// transaction in which everything it depends on was written: nothing can be withheld or
// changed in between. e is what a pass on the operation's behalf has just done, nil for
// none.
func (r *Reconciler) Evaluate(t *tx.Tx, e *Effect) error {
	if t.Instance.ProcessingSequence == 0 {
		return nil
	}
	op, err := t.Operation(t.Instance.ProcessingSequence)
	if err != nil {
		return err
	}
	if op.Phase == api.PhaseStart {
		return r.evaluateStart(t, op)
	}
	old := op
	ids := TargetIDs(op.Targets)
	if e != nil {
		for _, id := range e.Changed {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if op.Targets, op.Withheld, err = Targets(t, ids); err != nil {
		return err
	}
	return r.finishOrSave(t, op, !store.Same(old, op))
}

// evaluateOne is Evaluate if nothing but the report of this node has changed.
func (r *Reconciler) evaluateOne(t *tx.Tx, n store.Node) error {
	if t.Instance.ProcessingSequence == 0 {
		return nil
	}
	op, err := t.Operation(t.Instance.ProcessingSequence)
	if err != nil {
		return err
	}
	if op.Phase == api.PhaseStart {
		return r.evaluateStart(t, op)
	}
	i := slices.IndexFunc(op.Targets, func(target api.OperationTarget) bool { return target.NodeID == n.ID })
	if i < 0 {
		if slices.ContainsFunc(op.Targets, func(target api.OperationTarget) bool { return target.WaitsFor == n.ID }) {
			return r.finishOrSave(t, op, false)
		}
		return nil
	}
	before := op.Targets[i]
	op.Targets[i] = progress.Target(n, t.Store.Epoch())
	return r.finishOrSave(t, op, op.Targets[i] != before)
}

// finishOrSave finishes an END if none of its targets is waited for any more or its time
// is over; otherwise it saves what was evaluated anew. changed says that a target has
// changed.
func (r *Reconciler) finishOrSave(t *tx.Tx, op store.Operation, changed bool) error {
	if !slices.ContainsFunc(op.Targets, func(target api.OperationTarget) bool { return !target.Ready }) {
		return r.Finish(t, &op, api.Completed)
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
	case !t.Now.Before(r.FailsAt(op)):
		return r.failEnd(t, op, all)
	case changed || !op.StuckSince.Equal(since):
		return t.SaveOperation(op)
	}
	return nil
}

// failEnd fails an END whose time is over. all are its targets and what these wait for.
func (r *Reconciler) failEnd(t *tx.Tx, op store.Operation, all []api.OperationTarget) error {
	op.Targets = progress.ByCause(op.Targets)
	waiting := progress.Waiting(progress.ByCause(all))
	if t.Now.Before(op.Deadline) {
		op.Error = api.NewProblem(api.ProblemTargetsFailed, fmt.Sprintf(
			"%s. No waiting mends this, and nothing has changed for %s: mend it, then post the operation again",
			waiting, t.Now.Sub(op.StuckSince).Round(time.Second)))
	} else {
		op.Error = api.NewProblem(api.ProblemDeadline, fmt.Sprintf(
			"after %s these nodes were not ready: %s. They continue to converge; post the operation again to wait for them",
			op.Deadline.Sub(op.StartedAt), waiting))
	}
	return r.Finish(t, &op, api.Failed)
}

// FailsAt is when an operation in progress fails unless its targets change: at its
// deadline or, if no waiting makes them ready, after the grace. Nodes that have mended
// something while the controller was down first have the time to report it.
func (r *Reconciler) FailsAt(op store.Operation) time.Time {
	if op.StuckSince.IsZero() {
		return op.Deadline
	}
	at := op.StuckSince.Add(r.FailureGrace)
	if reported := r.UpSince.Add(api.LongestRetry); at.Before(reported) {
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
