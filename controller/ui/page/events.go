package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// eventRow is an event as a row.
type eventRow struct {
	At     stamp
	Badge  badge
	Object name
	Text   string
}

// newest are the latest of these events, the newest first.
func (f Frame) newest(events []api.Event, most int) (list []eventRow) {
	for _, e := range slices.Backward(events[max(0, len(events)-most):]) {
		list = append(list, f.eventRow(e))
	}
	return list
}

func (f Frame) eventRow(e api.Event) eventRow {
	return eventRow{At: f.both(&e.At), Badge: toned(describe.OfEvent(e), string(e.Type)), Object: eventObject(e), Text: eventText(e)}
}

// eventText is what has happened; operations are called as on their own pages, and codes are in words.
func eventText(e api.Event) string {
	switch e.Type {
	case api.HappenedEnrolled:
		e.Message = cmp.Or(describe.Attestation(api.Attestation(e.Message)), e.Message)
	case api.HappenedDesiredStateChanged:
		return "version " + describe.Event(e)
	case api.HappenedOperationStarted:
		request, more, said := strings.Cut(e.Message, ", ")
		kind, phase, _ := strings.Cut(request, " ") // as api.OperationRequest.Describe has it
		if e.Message = describe.OperationTitle(kind, api.OperationPhase(phase)); said {
			e.Message += ", " + more
		}
	case api.HappenedOperationEnded, api.HappenedOperationCancelled:
		state := describe.OperationState(api.OperationState(e.To), api.ProblemPrefix+e.Reason)
		e.From, e.To = "", state
		if e.Reason != "" {
			e.To, e.Reason = "", state
		}
	}
	return describe.Event(e)
}

// eventObject is what the event is about.
func eventObject(e api.Event) name {
	object := name{Text: describe.EventObject(e)}
	instance, sequence, _ := strings.Cut(e.OperationID, "/")
	number, err := strconv.ParseInt(sequence, 10, 64)
	switch {
	case e.OperationID != "" && err == nil:
		object.Full, object.Path = e.OperationID, operationPath(api.Operation{VnfInstanceID: instance, Sequence: number})
	case e.VolumeID != "":
		object.Full, object.Path = e.VolumeID, volumePath(e.VolumeID)
	case e.NodeID != "":
		object.Full, object.Path = e.NodeID, nodePath(e.NodeID)
	case e.VnfInstanceID != "":
		object.Full, object.Path = e.VnfInstanceID, instancePath(e.VnfInstanceID)
	}
	return object
}

type historyPage struct {
	Filter filter
	Rows   []eventRow
	Pager  pager
	Full   bool
	Length int
}

func (h History) content(f Frame) content {
	query := f.query()
	var found []api.Event
	for _, e := range slices.Backward(h.Events) {
		if fits(query, "type", e.Type) && contains(query, string(e.Type), describe.EventObject(e), eventText(e), describe.Event(e), e.NodeName, e.By) {
			found = append(found, e)
		}
	}
	form := newFilter(f, PathHistory, textControl("node, reason, who"), choice("type", "Event", eventTypes()...),
		control{Name: "instance", Label: "Instance", Hint: nameHint}, control{Name: "node", Label: "Node", Hint: nameHint}, control{Name: "volume", Label: "Volume", Hint: nameHint})
	shown, pager := paged(f, form, found, len(h.Events))
	rows := make([]eventRow, 0, len(shown))
	for _, e := range shown {
		rows = append(rows, f.eventRow(e))
	}
	return content{name: "history", title: "History", lead: "What has happened, the newest first: to what, when, why and by whom.", filter: &form, changed: []string{ChangedEvents},
		data: historyPage{Rows: rows, Pager: pager, Full: len(h.Events) >= HistoryLength, Length: HistoryLength}}
}

// eventTypes are the types that operators look for, in the order of the alphabet.
func eventTypes() []api.EventType {
	return []api.EventType{
		api.HappenedAgentUpgraded, api.HappenedCertificateRenewed, api.HappenedConditionChanged, api.HappenedDesiredStateChanged,
		api.HappenedDocumentGiven, api.HappenedDocumentObserved, api.HappenedEnrolled, api.HappenedFormatInterrupted,
		api.HappenedFormatStarted, api.HappenedInstanceConfirmed, api.HappenedInstanceCreated, api.HappenedInstanceDeleted, api.HappenedInstanceRenamed, api.HappenedKubernetesWave,
		api.HappenedNodeBack, api.HappenedNodeLost, api.HappenedNodesBack, api.HappenedNodesLost, api.HappenedOldServerIsOff, api.HappenedOperationCancelled,
		api.HappenedOperationEnded, api.HappenedOperationStarted, api.HappenedPermitGranted, api.HappenedPermitWithdrawn,
		api.HappenedRebooted, api.HappenedReenrollAllowed, api.HappenedReformatAllowed, api.HappenedRevoked,
		api.HappenedRolloutCompleted, api.HappenedRolloutContinued, api.HappenedRolloutPaused, api.HappenedRolloutStarted,
		api.HappenedRolloutStopped, api.HappenedRolloutWave, api.HappenedServerExpected, api.HappenedServerLeft,
		api.HappenedStateRestored, api.HappenedTokenConfirmed, api.HappenedTokenCreated, api.HappenedTokenExpired,
		api.HappenedTokenRevoked, api.HappenedVolumeAdopted, api.HappenedVolumeFormatted,
	}
}
