// Package heatsignal tells Heat once what became of a new server: that it has
// converged, or that its first configuration failed and a person has to look. A
// wait condition of the stack waits for that. It is no part of convergence: nothing
// waits for Heat, and what Heat answers changes nothing on the machine.
package heatsignal

import (
	"fmt"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

// longestReason is how much of a message Heat keeps as the stack's reason.
const longestReason = 1000

// Signal is what a wait condition's handle takes.
type Signal struct {
	Status string `json:"status"` // success or failure
	Reason string `json:"reason"`
	// ID is the server's; a second signal with the same replaces the first.
	ID   string `json:"id"`
	Data string `json:"data"`
}

// signed is a Signal in the words of heat-api-cfn, which takes these four, no more and
// no fewer.
type signed struct {
	Status, Reason string
	ID             string `json:"UniqueId"`
	Data           string
}

const (
	success = "SUCCESS"
	failure = "FAILURE"
)

// Of is the signal for this status; false while there is nothing to tell yet. A
// document that is only the last known good, from the disk, tells nothing: the
// controller may want another by now.
func Of(s *status.Status) (Signal, bool) {
	n := &s.Node
	if s.NodeID == "" || s.Origin != status.FromController || n.ObservedGeneration == 0 {
		return Signal{}, false
	}
	signal := Signal{ID: s.NodeID, Data: "nodehitch-agent " + s.AgentVersion}
	ready := n.Condition(api.ConditionReady)
	switch {
	case ready != nil && ready.Status == api.ConditionTrue && n.AppliedGeneration == n.ObservedGeneration:
		signal.Status, signal.Reason = success, fmt.Sprintf("converged to generation %d", n.AppliedGeneration)
	case n.LastFailedGeneration == n.ObservedGeneration:
		signal.Status, signal.Reason = failure, failed(n)
	default:
		return Signal{}, false
	}
	return signal, true
}

// failed names the condition that only a person can mend, its reason and message.
func failed(n *api.NodeStatus) string {
	text := n.LastFailedCondition
	if c := n.Condition(n.LastFailedCondition); c != nil {
		text = fmt.Sprintf("%s: %s: %s", c.Type, c.Reason, c.Message)
	}
	if runes := []rune(text); len(runes) > longestReason {
		text = string(runes[:longestReason]) + "…"
	}
	return text
}
