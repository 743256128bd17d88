package describe

import (
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// OfEvent is the tone of what has happened.
func OfEvent(e api.Event) Tone {
	switch e.Type {
	case api.HappenedConditionChanged:
		switch {
		case e.To == "":
		case e.To == string(api.ConditionTrue):
			return Good
		case e.To == string(api.ConditionFalse) && e.Reason != api.ReasonConverging && (e.From == string(api.ConditionTrue) || !onTheWay(e.Reason)):
			return Bad
		default:
			return Waiting
		}
	case api.HappenedOperationEnded, api.HappenedOperationCancelled:
		return OfOperation(api.OperationState(e.To))
	case api.HappenedFormatInterrupted, api.HappenedNodeLost, api.HappenedNodesLost, api.HappenedRolloutStopped, api.HappenedStateRestored:
		return Bad
	case api.HappenedNodeBack, api.HappenedNodesBack, api.HappenedRolloutCompleted:
		return Good
	case api.HappenedRolloutPaused:
		return Waiting
	}
	return Plain
}

// EventObject is what the event is about, as short as commands know it.
func EventObject(e api.Event) string {
	switch {
	case e.OperationID != "":
		instance, sequence, _ := strings.Cut(e.OperationID, "/")
		return Short(instance) + "/" + sequence
	case e.VolumeID != "":
		return "volume " + Short(e.VolumeID)
	case e.NodeName != "":
		return e.NodeName
	case e.TokenName != "":
		return "token " + e.TokenName
	case strings.HasPrefix(string(e.Type), "Rollout"):
		return "agents"
	case e.VnfInstanceID == "":
		return "controller"
	}
	return "instance " + InstanceName(e.VnfInstanceName, e.VnfInstanceID)
}

// Event is what was and is, why, and who caused it unless that is the controller or the node
// itself, or the message says it.
func Event(e api.Event) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(e.Condition)
	if e.Generation != 0 {
		add(fmt.Sprintf("generation %d", e.Generation))
	}
	switch {
	case e.Type == api.HappenedOperationStarted:
	case e.From != "" && e.To != "" && e.From != e.To:
		add(e.From + " -> " + e.To)
	case e.To != "":
		add(e.To)
	case e.From != "":
		add(e.From + " -> " + None)
	}
	switch {
	case e.Reason != "":
		add(ReasonAndMessage(e.Reason, e.Message))
	default:
		add(e.Message)
	}
	if e.By != "controller" && e.By != "node "+e.NodeID && !strings.Contains(e.Message, "by "+e.By) {
		add("(" + e.By + ")")
	}
	return strings.Join(parts, " ")
}
