package completion

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// evaluateStart finishes a START that waits for what has to leave the cluster. If the owner
// refuses, the wait ends at once, and the START is taken back.
func (e *Evaluator) evaluateStart(t *tx.Tx, op store.Operation) (takenBack bool, err error) {
	now, err := desired.Record(t)
	if err != nil {
		return false, err
	}
	owner, _, err := t.Nodes().Get(t.Instance.CarriedOver.Owner)
	if err != nil {
		return false, err
	}
	old := op
	target, left, refused := progress.Withdrawn(owner, t.Store.Epoch(), e.withdrawals(t, now, owner)...)
	op.Targets, op.Withheld = []api.OperationTarget{target}, slices.Concat([]api.Withheld{}, owner.Withheld)
	switch {
	case target.Ready:
		return false, e.FinishStart(t, &op)
	case refused:
		why := target.Message
		if target.Reason != api.ReasonInUse { // the problem's title says that one
			why = fmt.Sprintf("%s: %s", target.Reason, why)
		}
		return true, e.Stop(t, &op, left.Problem, why)
	case !t.Now.Before(op.Deadline):
		return true, e.Stop(t, &op, api.ProblemDeadline, fmt.Sprintf("after %s %s: %s (%s): %s, %s",
			op.Deadline.Sub(op.StartedAt), left.Undone, target.Name, target.NodeID, target.Reason, target.Message))
	case store.Same(old, op):
		return false, nil
	}
	return false, t.SaveOperation(op)
}

// withdrawals are what a version of the desired state asks the owner to take out of the cluster,
// and is waited for. Force waits for members until the owner has answered, and not for an owner
// that is not heard of: then no master is.
func (e *Evaluator) withdrawals(t *tx.Tx, d store.Desired, owner store.Node) (list []progress.Withdrawal) {
	if d.WithdrawPersistentVolumes {
		list = append(list, progress.PersistentVolumes)
	}
	forced := d.Force && (!e.Presence.Heard(owner) || progress.Members.Answered(owner, t.Store.Epoch()))
	if len(d.Leaving) > 0 && !forced {
		list = append(list, progress.Members)
	}
	return list
}
