package lcm

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
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

// checkWithdrawal wants who is to be asked in the topology: the storage server, whose
// addresses tell which PersistentVolumes are its own, and a master that has registered.
func (p *posting) checkWithdrawal(out plan.Output) fault.List {
	if !p.next.Withdraw || len(out.Faults) > 0 {
		return nil
	}
	k := p.known()
	here := map[api.Role]bool{}
	for _, n := range out.Nodes {
		named := slices.ContainsFunc(p.r.VnfcInstanceIds, func(id string) bool {
			return slices.ContainsFunc(k.named(id), func(s api.Server) bool { return s.ID == n.ID })
		})
		here[n.Role] = here[n.Role] || named || n.Role == api.RoleMaster
	}
	switch at := fault.Root.Key("vnfcInstanceIds"); {
	case !here[api.RoleStorage]:
		return fault.List{at.Fault("names the storage server, and the topology has it no more, so that nobody can tell which PersistentVolumes are its own; " +
			"post the START before the stack changes, or only the END")}
	case !here[api.RoleMaster] && p.inst.Standing.Registered:
		return fault.List{at.Fault("names the storage server, and the topology has no master that could withdraw its PersistentVolumes; give it in the topology")}
	}
	return nil
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
