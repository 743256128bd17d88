package describe

import (
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// StepEnrolled is the step of a node before its conditions: it has an identity.
const StepEnrolled = "Enrolled"

// Step is one thing that a node goes through, as it is now.
type Step struct {
	Name string
	Done bool
	Bad  bool
	// Since is when the agent began to work on it; zero if it does not.
	Since time.Time
	// Text is the state or reason why it is not done.
	Text string
}

// Steps are those of a node: its enrollment, its present conditions, Ready.
func Steps(n api.Node) []Step {
	enrolled := Step{Name: StepEnrolled, Done: hasIdentity(n)}
	if !enrolled.Done {
		enrolled.Text = string(n.State)
	}
	list := []Step{enrolled}
	for _, c := range PresentConditions(n) {
		if c.Type == api.ConditionReady {
			continue
		}
		s := Step{Name: c.Type, Done: c.Status == api.ConditionTrue && current(n), Text: c.Reason}
		if a := n.Status.Activity; a != nil && a.Condition == c.Type {
			s.Since = a.StartedAt
		}
		s.Bad = OfCondition(n, c) == Bad
		list = append(list, s)
	}
	return append(list, Step{Name: api.ConditionReady, Done: n.Ready})
}

// PresentConditions are Conditions; none if the node's identity was revoked, for what it reported
// before says nothing of the machine now.
func PresentConditions(n api.Node) []api.Condition {
	if !hasIdentity(n) {
		return nil
	}
	return Conditions(n)
}

func hasIdentity(n api.Node) bool { return n.State == api.NodeEnrolled || n.State == api.NodeLost }

// current says that what the node reports is about its present document, and was said after a restore.
func current(n api.Node) bool {
	return n.Status != nil && !n.Unconfirmed && n.Status.ObservedDigest == n.Digest && n.Status.ObservedGeneration == n.Generation
}
