package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// OfNode is the tone of a node's state.
func OfNode(s api.NodeState) Tone {
	switch s {
	case api.NodeEnrolled:
		return Good
	case api.NodeLost:
		return Bad
	case api.NodeRevoked:
		return Plain // as each heal and scale-in does
	}
	return Waiting
}

// NodeState says what a node's state means and what to do, "" for one that is not known.
func NodeState(s api.NodeState) string {
	return map[api.NodeState]string{
		api.NodeExpected: "in the topology; its agent has not enrolled: " + api.Reasons[api.ReasonNotEnrolled].Action,
		api.NodeEnrolled: "it has a live identity",
		api.NodeLost:     lost,
		api.NodeRevoked:  revoked,
	}[s]
}

const (
	lost    = "it has not called for three poll intervals and keeps its last configuration: check the VM and the network"
	revoked = "its identity is revoked; `hitchctl node reenroll` lets it enroll again"
)

// Unconfirmed marks what a restore brought back and no operator has confirmed.
const Unconfirmed = "unconfirmed"

// UnconfirmedNode says what that means of a node.
func UnconfirmedNode(n api.Node) string {
	return "restored from a backup; its calls are refused until `hitchctl confirm instance " + Short(n.VnfInstanceID) + "`"
}

// UnconfirmedInstance says what that means of an instance.
func UnconfirmedInstance(i api.Instance) string {
	return "its nodes are refused until `hitchctl confirm instance " + Short(i.ID) + "`"
}

// Attestation says what a node's attestation means, "" for none.
func Attestation(a api.Attestation) string {
	return map[api.Attestation]string{
		api.AttestedByToken: "by its join token only",
		api.AttestedByNova:  "Nova and Heat know the server; it was not asked for a nonce, or none could be written",
		api.AttestedByNonce: "Nova and Heat know the server, and it read a nonce from its own metadata service",
	}[a]
}

// System is the operating system of a node's machine, as far as it is known.
func System(f api.Facts) string {
	known := slices.DeleteFunc([]string{f.OSImage, f.KernelVersion, f.Architecture}, func(s string) bool { return s == "" })
	return strings.Join(known, ", ")
}

// Reported is how far a node is with its documents.
func Reported(s api.NodeStatus) string {
	text := fmt.Sprintf("%d seen, %d applied", s.ObservedGeneration, s.AppliedGeneration)
	if s.LastFailedGeneration > 0 {
		text += fmt.Sprintf(", %d failed at %s", s.LastFailedGeneration, s.LastFailedCondition)
	}
	return text
}

// Upgrade is the state of an agent's upgrade, and what its reason means unless all is well.
func Upgrade(u api.AgentUpgrade) (state string, doc api.ReasonDoc) {
	state = ReasonAndMessage(u.Reason, u.Message)
	if u.Reason == api.UpgradeUpToDate {
		return state, api.ReasonDoc{}
	}
	if u.Version != "" {
		state = "to " + u.Version + ", " + state
	}
	return state, api.UpgradeReasons[u.Reason]
}

// Why says in one line what stands between a node and Ready, or what it is doing.
func Why(n api.Node) string {
	if n.State == api.NodeExpected {
		return "its agent has not enrolled yet"
	}
	switch n.State { // what it said last may be long over
	case api.NodeLost:
		return lost
	case api.NodeRevoked:
		return revoked
	}
	if n.Status != nil && n.Status.Activity != nil {
		return n.Status.Activity.Summary
	}
	for _, c := range Conditions(n) {
		withheld := c.Reason == api.ReasonNotReported && len(n.Withheld) > 0 // which says why
		if c.Status != api.ConditionTrue && c.Type != api.ConditionReady && !withheld {
			return ReasonAndMessage(c.Reason, c.Message)
		}
	}
	for _, w := range n.Withheld {
		return ReasonAndMessage(w.Reason, w.Message)
	}
	if n.Status == nil {
		return "it has enrolled and not reported yet"
	}
	if !n.Ready && n.Generation > n.Status.AppliedGeneration {
		return fmt.Sprintf("it has applied generation %d, the present one is %d", n.Status.AppliedGeneration, n.Generation)
	}
	return ""
}

// OfAgent is the tone of an agent's place in an upgrade.
func OfAgent(s api.AgentState) Tone {
	switch s {
	case api.AgentUpToDate:
		return Good
	case api.AgentRolledBack, api.AgentLost:
		return Bad
	case api.AgentInFlightState, api.AgentWaiting, api.AgentNotReady, api.AgentInOperation:
		return Waiting
	}
	return Plain
}

// CarriedAgent is an agent that the controller carries.
func CarriedAgent(c api.CarriedAgent) string {
	return fmt.Sprintf("%s for %s, %s, sha256:%.12s", cmp.Or(c.Version, "no version"), c.Architecture, Size(c.SizeBytes), c.Sha256)
}
