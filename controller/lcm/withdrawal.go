package lcm

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// withdraws says whether the request is the START of a HEAL that takes the storage
// server away and leaves the cluster: the PersistentVolumes that it serves have to go
// before it does (spec: heal_start). Where the entire VNF is healed the cluster goes
// with them.
func (p *posting) withdraws() bool {
	c := p.before.params.Cluster
	if p.r.Operation != api.Heal || p.r.Phase != api.PhaseStart || c == nil || len(c.PersistentVolumes) == 0 && !p.inst.Standing.Registered {
		return false
	}
	named := map[string]bool{}
	storage := false
	k := p.known()
	for _, id := range p.r.VnfcInstanceIds {
		for _, s := range k.named(id) {
			named[s.ID] = true
			storage = storage || k.roles[s.ID] == api.RoleStorage
		}
	}
	return storage && slices.ContainsFunc(k.all, func(id string) bool { return !named[id] })
}

// evaluateWithdrawal looks whether the PersistentVolumes are gone, for which a START
// waits. One that cannot be withdrawn ends the wait at once, and everything goes back
// to what it was.
func (u *unit) evaluateWithdrawal(op store.Operation) error {
	owner, _, err := u.tx.Nodes().Get(u.inst.Standing.Owner)
	if err != nil {
		return err
	}
	old := op
	target, final := withdrawn(owner, u.Store.Epoch())
	op.Targets, op.Withheld = []api.OperationTarget{target}, slices.Concat([]api.Withheld{}, owner.Withheld)
	switch {
	case target.Ready:
		return u.started(&op)
	case final:
		return u.failStart(op, api.ProblemVolumesInUse, fmt.Sprintf("%s: %s", target.Reason, target.Message))
	case !u.now.Before(op.Deadline):
		return u.failStart(op, api.ProblemDeadline, fmt.Sprintf("after %s the PersistentVolumes were not gone: %s (%s): %s, %s",
			op.Deadline.Sub(op.StartedAt), target.Name, target.NodeID, target.Reason, target.Message))
	case same(old, op):
		return nil
	}
	return u.saveOperation(op)
}

// withdrawn is how far the owner has come with withdrawing, and whether its answer
// is final.
func withdrawn(owner store.Node, epoch int64) (t api.OperationTarget, final bool) {
	t = api.OperationTarget{NodeID: owner.ID, Name: owner.Name}
	c := proven(owner, epoch, api.ConditionPersistentVolumesRegistered)
	switch {
	case c == nil:
		t.Reason, t.Message = missing(owner, epoch)
		if t.Reason == "" {
			t.Reason, t.Message = api.ReasonConverging, "its agent is at work"
		}
	case c.Status == api.ConditionTrue && c.Reason == api.ReasonAbsent:
		t.Ready = true
	default:
		t.Reason, t.Message = c.Reason, c.Message
		failed := owner.Status.LastFailedGeneration == owner.Generation && owner.Status.LastFailedCondition == c.Type
		final = failed || c.Reason == api.ReasonInUse // another condition's failure may be the last one
	}
	return t, final
}

// failStart ends a START that did not reach what it waited for.
func (u *unit) failStart(op store.Operation, problemType, why string) error {
	kept, err := u.goBack(op)
	if err != nil {
		return err
	}
	op.Error = api.NewProblem(problemType, fmt.Sprintf("%s; %s", why, kept))
	if err := u.finishOperation(&op, api.Failed); err != nil {
		return err
	}
	_, err = u.follow()
	return err
}
