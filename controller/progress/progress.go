// Package progress says from the records of nodes how far they are, and so what an
// operation waits for. It is pure: no store, no clock.
package progress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// reported is the node's status if it counts: from the machine that holds the
// identity now, about the present document, in this epoch. Else nil. Content that has
// come back after another one is another document: between the two the machine was
// made something else.
func reported(n store.Node, epoch int64) *api.NodeStatus {
	s := n.Status
	if s == nil || !n.Identity.Live() || !n.StatusOf.Equal(n.Identity.EnrolledAt) ||
		s.Epoch != epoch || s.ObservedGeneration != n.Generation || s.ObservedDigest != n.Digest {
		return nil
	}
	return s
}

// Ready reports whether the node has applied its present document. The node's own Ready is
// not enough: an agent that ignores a section reports no condition that is False for it.
func Ready(n store.Node, epoch int64) bool {
	s := reported(n, epoch)
	if s == nil || s.AppliedDigest != n.Digest || !isTrue(s, api.ConditionReady) {
		return false
	}
	return !slices.ContainsFunc(n.Conditions, func(called string) bool { return !isTrue(s, called) })
}

func isTrue(s *api.NodeStatus, conditionType string) bool {
	c := s.Condition(conditionType)
	return c != nil && c.Status == api.ConditionTrue
}

// ReportedForCurrent is a condition that the node reports of its present document, nil for none.
// A report that came right after the document may still tell of the one before.
func ReportedForCurrent(n store.Node, epoch int64, conditionType string) *api.Condition {
	c := reported(n, epoch).Condition(conditionType)
	if c == nil || c.ObservedGeneration != n.Generation {
		return nil
	}
	return c
}

// Target is the node as a target as it stands: ready, or what is missing.
func Target(n store.Node, epoch int64) api.OperationTarget {
	t := api.OperationTarget{NodeID: n.ID, Name: n.Name}
	t.Reason, t.Message = missing(n, epoch)
	t.Ready = t.Reason == ""
	return t
}

func missing(n store.Node, epoch int64) (api.Reason, string) {
	switch {
	case len(n.Withheld) > 0:
		var all []string
		for _, w := range n.Withheld {
			all = append(all, w.Message)
		}
		return n.Withheld[0].Reason, strings.Join(all, "; ")
	case n.Identity == nil:
		return api.ReasonNotEnrolled, "its agent has not enrolled"
	case !n.Identity.Live():
		return api.ReasonNotEnrolled, fmt.Sprintf("its identity was revoked (%s) and it has not enrolled again", n.Identity.RevokedReason)
	case Ready(n, epoch):
		return "", ""
	}
	s := reported(n, epoch)
	if s == nil {
		return api.ReasonNotReported, fmt.Sprintf("it has not reported for generation %d of its configuration", n.Generation)
	}
	for _, c := range s.Conditions {
		if c.Type != api.ConditionReady && c.Status != api.ConditionTrue {
			return c.Reason, strings.TrimSuffix(c.Type+": "+c.Message, ": ")
		}
	}
	if isTrue(s, api.ConditionReady) {
		for _, called := range n.Conditions {
			if s.Condition(called) == nil {
				return api.ReasonNotReported, fmt.Sprintf("it is ready but does not report %s, which its configuration needs; update its agent", called)
			}
		}
	}
	return api.ReasonConverging, "its agent is converging"
}

// Withdrawn is how far the owner has come with withdrawing the PersistentVolumes, and
// whether its answer is final.
func Withdrawn(owner store.Node, epoch int64) (t api.OperationTarget, final bool) {
	t = api.OperationTarget{NodeID: owner.ID, Name: owner.Name}
	c := ReportedForCurrent(owner, epoch, api.ConditionPersistentVolumesRegistered)
	switch {
	case c == nil:
		t.Reason, t.Message = missing(owner, epoch)
		if t.Reason == "" {
			t.Reason, t.Message = api.ReasonConverging, "its agent is converging"
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

// Waiting lists what each target that is not ready waits for, "" for nothing.
func Waiting(targets []api.OperationTarget) string {
	var list []string
	for _, t := range targets {
		if !t.Ready {
			list = append(list, fmt.Sprintf("%s (%s): %s, %s", t.Name, t.NodeID, t.Reason, t.Message))
		}
	}
	return strings.Join(list, "; ")
}

// Bound are the PersistentVolumes that the node has reported as bound, in this epoch and by
// the machine that holds the identity now. Which document it had matters not.
func Bound(n store.Node, epoch int64) []api.BoundPersistentVolume {
	s := n.Status
	if s == nil || !n.Identity.Live() || !n.StatusOf.Equal(n.Identity.EnrolledAt) || s.Epoch != epoch {
		return nil
	}
	return s.BoundPersistentVolumes
}
