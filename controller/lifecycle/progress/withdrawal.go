package progress

import (
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Withdrawal is something that a START has the owner master take out of the cluster.
type Withdrawal struct {
	// Condition is the one in which the owner reports on it, Done its reason once it is gone.
	Condition string
	Done      api.Reason
	// Refused are the reasons that end the wait although the agent tries again.
	Refused []api.Reason
	// Problem is that of a START that the owner refuses. Undone says for people that the
	// deadline came first.
	Problem, Undone string
}

// PersistentVolumes is the withdrawal of those that a storage server serves.
var PersistentVolumes = Withdrawal{
	Condition: api.ConditionPersistentVolumesRegistered, Done: api.ReasonAbsent, Refused: []api.Reason{api.ReasonInUse},
	Problem: api.ProblemVolumesInUse, Undone: "the PersistentVolumes were not gone",
}

// Members is the withdrawal of members of the cluster.
var Members = Withdrawal{
	Condition: api.ConditionClusterMembersLeft, Done: api.ReasonMembersLeft, Refused: []api.Reason{api.ReasonUnmanagedPods, api.ReasonQuorumAtRisk},
	Problem: api.ProblemMembersStay, Undone: "the members had not left the cluster",
}

// Answered reports whether the owner has done for this what it can: it has said of its present
// document how it stands, whatever that is, or is not asked.
func (w Withdrawal) Answered(owner store.Node, epoch int64) bool {
	if !slices.Contains(owner.Conditions, w.Condition) {
		return reported(owner, epoch) != nil
	}
	c := ReportedForCurrent(owner, epoch, w.Condition)
	return c != nil && c.Reason != api.ReasonConverging && c.Reason != api.ReasonWaitingForController
}

// Withdrawn is how far the owner has come with what it is asked. left is what it refuses, or
// else the first that is not gone; nil if all is.
func Withdrawn(owner store.Node, epoch int64, asked ...Withdrawal) (t api.OperationTarget, left *Withdrawal, refused bool) {
	t = api.OperationTarget{NodeID: owner.ID, Name: owner.Name, Ready: true}
	for i, w := range asked {
		each, refused := w.withdrawn(owner, epoch)
		if refused || left == nil && !each.Ready {
			t, left = each, &asked[i]
		}
		if refused {
			return t, left, true
		}
	}
	return t, left, false
}

// withdrawn is how far the owner has come with this, and whether it refuses.
func (w Withdrawal) withdrawn(owner store.Node, epoch int64) (t api.OperationTarget, refused bool) {
	t = api.OperationTarget{NodeID: owner.ID, Name: owner.Name}
	c := ReportedForCurrent(owner, epoch, w.Condition)
	switch {
	case c == nil:
		t = Target(owner, epoch)
		if t.Ready {
			t.Ready, t.Reason, t.Message = false, api.ReasonConverging, "its agent is converging"
		}
	case c.Status == api.ConditionTrue && c.Reason == w.Done:
		t.Ready = true
	default:
		t.Reason, t.Message = c.Reason, c.Message
		failed := owner.Status.LastFailedGeneration == owner.Generation && owner.Status.LastFailedCondition == c.Type
		refused = failed || slices.Contains(w.Refused, c.Reason) // another condition's failure may be the last one
	}
	return t, refused
}
