// Package progress says from the records of nodes how far they are, and so what an
// operation waits for. It is pure: no store, no clock.
package progress

import (
	"cmp"
	"fmt"
	"iter"
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
	s := genuine(n, epoch)
	if s == nil || s.ObservedGeneration != n.Generation || s.ObservedDigest != n.Digest {
		return nil
	}
	return s
}

// genuine is the node's status, about whatever document, if it is from the machine that holds the
// identity now and in this epoch. Else nil. It may be old: the last report of a lost node counts.
func genuine(n store.Node, epoch int64) *api.NodeStatus {
	s := n.Status
	if s == nil || !n.Identity.Live() || !n.StatusOf.Equal(n.Identity.EnrolledAt) || s.Epoch != epoch {
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

// Conditions are Ready and each condition that the node's present document calls for, as the node
// has reported them for that document: Unknown if it has not. Ready is True if Ready says so.
func Conditions(n store.Node, epoch int64) iter.Seq[api.Condition] {
	return func(yield func(api.Condition) bool) {
		s := reported(n, epoch)
		missing := api.Condition{Type: api.ConditionReady, Status: api.ConditionUnknown, Reason: api.ReasonNotReported}
		if !n.Identity.Live() {
			missing.Reason = api.ReasonNotEnrolled
		}
		ready := missing
		switch {
		case Ready(n, epoch):
			ready.Status, ready.Reason = api.ConditionTrue, api.ReasonReady
		case s != nil:
			ready.Status, ready.Reason = api.ConditionFalse, api.ReasonNotReady
		}
		if !yield(ready) {
			return
		}
		for _, missing.Type = range n.Conditions {
			c := s.Condition(missing.Type)
			if c == nil {
				c = &missing
			}
			if !yield(*c) {
				return
			}
		}
	}
}

// Target is the node as a target as it stands: ready, or what it lacks most.
func Target(n store.Node, epoch int64) api.OperationTarget {
	t := missing(n, epoch)
	t.NodeID, t.Name, t.Ready = n.ID, n.Name, t.Reason == ""
	return t
}

// missing is what the node lacks most: first what no waiting mends, last what it waits for
// on another node, so that nothing hides its cause.
func missing(n store.Node, epoch int64) api.OperationTarget {
	own, others := split(n.Withheld)
	failed := failedFinally(n, epoch)
	switch {
	case len(own) > 0 && (failed == nil || isFinal(own[0].Reason)):
		var all []string
		for _, w := range own {
			all = append(all, w.Message)
		}
		return api.OperationTarget{Reason: own[0].Reason, Message: strings.Join(all, "; "), Final: isFinal(own[0].Reason)}
	case failed != nil:
		return api.OperationTarget{Reason: failed.Reason, Message: says(*failed), Final: true}
	case !Ready(n, epoch):
		var t api.OperationTarget
		t.Reason, t.Message = unproven(n, epoch)
		return t
	case len(others) > 0:
		return api.OperationTarget{Reason: others[0].Reason, Message: others[0].Message, WaitsFor: others[0].WaitsFor}
	}
	return api.OperationTarget{}
}

// split is what is withheld for reasons of the node's own, what no waiting mends first, and
// what waits for other nodes.
func split(withheld []api.Withheld) (own, others []api.Withheld) {
	for _, w := range withheld {
		if w.WaitsFor != "" {
			others = append(others, w)
		} else {
			own = append(own, w)
		}
	}
	slices.SortStableFunc(own, func(a, b api.Withheld) int { return first(isFinal(a.Reason), isFinal(b.Reason)) })
	return own, others
}

// first orders what has a property before what has it not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func isFinal(r api.Reason) bool { return api.Reasons[r].Final }

// failedFinally is the condition that the node's agent says has failed for its present
// document, if no waiting mends it; nil for none. The agent gives some final reasons also
// for what it tries again, such as a pull: its word counts too.
func failedFinally(n store.Node, epoch int64) *api.Condition {
	s := reported(n, epoch)
	if s == nil || s.LastFailedGeneration != n.Generation {
		return nil
	}
	c := ReportedForCurrent(n, epoch, s.LastFailedCondition)
	if c == nil || c.Status == api.ConditionTrue || !isFinal(c.Reason) {
		return nil
	}
	return c
}

func says(c api.Condition) string { return strings.TrimSuffix(c.Type+": "+c.Message, ": ") }

// unproven is why a node is not Ready for its document.
func unproven(n store.Node, epoch int64) (api.Reason, string) {
	s := reported(n, epoch)
	switch {
	case n.Identity == nil:
		return api.ReasonNotEnrolled, "its agent has not enrolled"
	case !n.Identity.Live():
		return api.ReasonNotEnrolled, fmt.Sprintf("its identity was revoked (%s) and it has not enrolled again", n.Identity.RevokedReason)
	case s == nil:
		return api.ReasonNotReported, fmt.Sprintf("it has not reported for generation %d of its configuration", n.Generation)
	}
	for _, c := range s.Conditions {
		if c.Type != api.ConditionReady && c.Status != api.ConditionTrue {
			return c.Reason, says(c)
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

// Stuck reports whether no waiting makes all targets ready: each that is not has failed
// finally, or waits for another one of the list that has, or that waits for such a one.
func Stuck(targets []api.OperationTarget) bool {
	byID := map[string]api.OperationTarget{}
	for _, t := range targets {
		byID[t.NodeID] = t
	}
	failed := func(t api.OperationTarget) bool {
		for range targets { // so that a circle ends
			if t.Ready || t.Final {
				break
			}
			t = byID[t.WaitsFor]
		}
		return t.Final
	}
	return !slices.ContainsFunc(targets, func(t api.OperationTarget) bool { return !t.Ready && !failed(t) })
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
	s := genuine(n, epoch)
	if s == nil {
		return nil
	}
	return s.BoundPersistentVolumes
}

// ControlPlane is what a master has reported of its certificates, in this epoch and by the machine
// that holds the identity now; nil for nothing.
func ControlPlane(n store.Node, epoch int64) *api.ControlPlaneFacts {
	s := genuine(n, epoch)
	if s == nil {
		return nil
	}
	return s.ControlPlane
}

// ByCause is the targets with causes before what follows from them: what no waiting mends
// first, what waits for another node last.
func ByCause(targets []api.OperationTarget) []api.OperationTarget {
	return slices.SortedStableFunc(slices.Values(targets), func(a, b api.OperationTarget) int {
		return cmp.Or(first(a.Final, b.Final), first(a.WaitsFor == "", b.WaitsFor == ""))
	})
}
