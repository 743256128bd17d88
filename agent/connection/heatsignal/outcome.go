// Package heatsignal signals Heat once that a new server has converged, or that its
// first configuration failed and an operator has to act. A wait condition of the stack
// waits for that. It is not part of convergence: the agent does not wait for Heat, and
// Heat's answer changes nothing on the machine.
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

// signed is a Signal in the form of heat-api-cfn, which takes exactly these members.
type signed struct {
	Status, Reason string
	ID             string `json:"UniqueId"`
	Data           string
}

const (
	success = "SUCCESS"
	failure = "FAILURE"
)

// Of returns the signal for this status; false if there is none yet. The last known good
// document from the disk gives none, because the controller may have another by now.
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

// failed names the condition that only an operator can fix, its reason and message.
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
