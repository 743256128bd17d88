package lcm

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// evaluate looks whether the operation at work is done, in the transaction in which
// everything it depends on was written: nothing can be withheld or changed between
// the look and the verdict. e is what a reconciliation on the operation's behalf
// has just done, nil for none.
func (u *unit) evaluate(e *effect) error {
	if u.inst.Processing == 0 {
		return nil
	}
	op, err := u.operation(u.inst.Processing)
	if err != nil {
		return err
	}
	if op.Phase == api.PhaseStart {
		return u.evaluateWithdrawal(op)
	}
	old := op
	ids := targetIDs(op.Targets)
	if e != nil {
		for _, id := range e.changed {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if op.Targets, op.Withheld, err = u.look(ids); err != nil {
		return err
	}
	switch unready := waiting(op.Targets); {
	case unready == "":
		return u.finishOperation(&op, api.Completed)
	case !u.now.Before(op.Deadline):
		op.Error = api.NewProblem(api.ProblemDeadline, fmt.Sprintf(
			"after %s these nodes were not ready: %s. They go on converging; post the operation again to wait for them",
			op.Deadline.Sub(op.StartedAt), unready))
		return u.finishOperation(&op, api.Failed)
	}
	if same(old, op) {
		return nil
	}
	return u.saveOperation(op)
}

// look is the targets as they stand and what is withheld from them. A node that
// the topology in force no longer has is no target any more.
func (u *unit) look(ids []string) ([]api.OperationTarget, []api.Withheld, error) {
	targets, withheld := []api.OperationTarget{}, []api.Withheld{}
	for _, id := range ids {
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return nil, nil, err
		}
		if !found || !n.Expected || n.InstanceID != u.inst.ID {
			continue
		}
		targets = append(targets, waitsFor(n, u.Store.Epoch()))
		withheld = append(withheld, n.Withheld...)
	}
	return targets, withheld, nil
}

// finishOperation records the end of an operation.
func (u *unit) finishOperation(op *store.Operation, state api.OperationState) error {
	op.State, op.Epoch = state, u.Store.Epoch()
	now := u.now
	op.FinishedAt = &now
	if u.inst.Processing == op.Sequence {
		u.inst.Processing = 0
	}
	if state == api.Completed && op.Phase == api.PhaseEnd {
		switch op.Operation.Operation {
		case api.Instantiate:
			u.inst.State, u.inst.UpdatedAt = api.Instantiated, u.now
		case api.Terminate:
			u.inst.State, u.inst.UpdatedAt = api.NotInstantiated, u.now
			u.inst.Standing = store.Standing{} // of a cluster that is no more
		}
	}
	u.report("operation ended", *op)
	return u.saveOperation(*op)
}

// interrupt ends the wait for the END of a START: the desired state goes back to
// what it was, unless somebody has changed it since.
func (u *unit) interrupt(start store.Operation, why string) error {
	u.inst.Awaiting = 0
	kept, err := u.goBack(start)
	if err != nil {
		return err
	}
	start.Error = api.NewProblem(api.ProblemInterrupted, fmt.Sprintf("%s; %s", why, kept))
	return u.finishOperation(&start, api.Failed)
}

// goBack takes back what a START has put in force, and says what became of it. Where
// somebody has changed the desired state since, that stays; but PersistentVolumes are
// not withdrawn any more, whichever START has begun it.
func (u *unit) goBack(start store.Operation) (kept string, err error) {
	kept = "a newer version of the desired state is in force and stays"
	if u.inst.DesiredVersion == start.MadeVersion {
		u.inst.DesiredVersion, u.inst.UpdatedAt = start.PreviousVersion, u.now
		kept = "the desired state went back to what it was"
	}
	now, err := u.inForce()
	if err == nil && now.Withdraw {
		now.Withdraw = false
		_, err = u.force(now, start.ID)
	}
	return kept, err
}

// report logs an operation once the transaction is on disk.
func (u *unit) report(what string, op store.Operation) {
	log := u.Log
	u.tx.OnCommit(func() {
		log.Info(what, "instance", op.VnfInstanceID, "operation", op.ID, "request", describe(op.Request), "state", op.State, "error", problemText(op.Error))
	})
}

func problemText(p *api.Problem) string {
	if p == nil {
		return ""
	}
	return p.Error()
}
