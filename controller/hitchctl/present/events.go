package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Events are a line for each event: when, what, to what, and why and by whom.
func Events(s *screen.Screen, list []api.Event) []string {
	p := &page{screen: s}
	p.events(0, list)
	return p.lines
}

func (p *page) events(indent int, list []api.Event) {
	for _, e := range list {
		p.line(indent, eventStyle(e), fmt.Sprintf("%s  %-19s %s", e.At.UTC().Format(time.DateTime+"Z"), e.Type,
			screen.Clean(strings.Join([]string{eventObject(e), eventText(e)}, "  "))))
	}
}

// lastEvents is the end of a description.
func (p *page) lastEvents(list []api.Event) {
	const few = 10
	if len(list) == 0 {
		return
	}
	p.heading("Last events")
	p.events(2, list[max(0, len(list)-few):])
}

func eventStyle(e api.Event) screen.Style {
	switch e.Type {
	case api.HappenedConditionChanged:
		if e.To != "" {
			return conditionStyle(api.ConditionStatus(e.To))
		}
	case api.HappenedOperationEnded, api.HappenedOperationCancelled:
		return operationStyle(api.OperationState(e.To))
	case api.HappenedRevoked, api.HappenedFormatInterrupted, api.HappenedInstanceDeleted:
		return screen.Bad
	}
	return screen.Normal
}

// eventObject is what the event is about, as short as commands know it.
func eventObject(e api.Event) string {
	switch {
	case e.OperationID != "":
		instance, sequence, _ := strings.Cut(e.OperationID, "/")
		return Short(instance) + "/" + sequence
	case e.VolumeID != "":
		return "volume " + Short(e.VolumeID)
	case e.NodeName != "":
		return e.NodeName
	}
	return "instance " + Short(e.VnfInstanceID)
}

// eventText is what was and is, why, and who caused it unless that is the controller or the
// node itself.
func eventText(e api.Event) string {
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
		add(e.From + " -> " + none)
	}
	switch {
	case e.Reason != "":
		add(reasonAndMessage(e.Reason, e.Message))
	default:
		add(e.Message)
	}
	if e.By != "controller" && e.By != "node "+e.NodeID {
		add("(" + e.By + ")")
	}
	return strings.Join(parts, " ")
}
