package event

import (
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// node is what happened by a change of a node. A node that an instance takes over is a new one.
func (h *derivation) node(c store.Change[store.Node]) {
	if c.After == nil { // with its instance
		h.steps = append(h.steps, step{nodeID: c.Key})
		return
	}
	after := *c.After
	var before store.Node
	if c.Before != nil && c.Before.InstanceID == after.InstanceID {
		before = *c.Before
	}
	add := func(e store.Event) {
		e.NodeID, e.NodeName = after.ID, after.Name
		h.step(e, after)
		h.add(after.InstanceID, e)
	}
	switch {
	case after.Expected && !before.Expected:
		add(store.Event{Type: api.HappenedServerExpected})
	case before.Expected && !after.Expected:
		add(store.Event{Type: api.HappenedServerLeft})
	}
	if what, why := identity(before, after); what != "" {
		e := store.Event{Type: what, Message: why}
		if what == api.HappenedEnrolled {
			e.BootedAt = after.Identity.BootedAt
		}
		add(e)
	}
	if after.Generation != before.Generation {
		add(store.Event{Type: api.HappenedDocumentGiven, Generation: after.Generation})
	}
	if after.Status == nil {
		return
	}
	var said api.NodeStatus
	if before.Status != nil && before.StatusOf.Equal(after.StatusOf) { // else another machine says it
		said = *before.Status
	}
	for _, e := range reported(said, *after.Status) {
		add(e)
	}
}

// said are the events that a node makes by what it says, as often as it likes, and silent those that
// it makes by saying nothing for a while, which the controller tells.
var (
	said = []api.EventType{api.HappenedConditionChanged, api.HappenedDocumentObserved, api.HappenedRebooted, api.HappenedAgentUpgraded,
		api.HappenedCertificateRenewed, api.HappenedDocumentGiven}
	silent = []api.EventType{api.HappenedNodeLost, api.HappenedNodeBack}
)

// onlySaid says that nodes have caused all of a record, and that they can cause it again.
func onlySaid(r store.Events) bool {
	byNode := strings.HasPrefix(r.By, "node ")
	for _, e := range r.Events {
		if !slices.Contains(silent, e.Type) && (!byNode || !slices.Contains(said, e.Type)) {
			return false
		}
	}
	return true
}

// identity is what happened to a node's identity, "" for nothing, and why.
func identity(before, after store.Node) (what api.EventType, why string) {
	old, now := before.Identity, after.Identity
	switch {
	case after.MayReenroll && !before.MayReenroll:
		return api.HappenedReenrollAllowed, ""
	case now.Live():
		switch {
		case !old.Live(), !old.EnrolledAt.Equal(now.EnrolledAt):
			return api.HappenedEnrolled, string(now.Attestation)
		case old.Serial != now.Serial:
			return api.HappenedCertificateRenewed, ""
		}
	case now != nil && (old == nil || old.Live() || before.MayReenroll && !after.MayReenroll):
		return api.HappenedRevoked, now.RevokedReason
	}
	return "", ""
}

// reported is what a report says that the one before did not.
func reported(before, after api.NodeStatus) (events []store.Event) {
	if was, is := before.Facts.BootID, after.Facts.BootID; was != "" && is != "" && was != is {
		events = append(events, store.Event{Type: api.HappenedRebooted})
	}
	if was, is := before.Facts.AgentVersion, after.Facts.AgentVersion; was != "" && is != "" && was != is {
		events = append(events, changed(api.HappenedAgentUpgraded, was, is))
	}
	if n := after.ObservedGeneration; n != 0 && (n != before.ObservedGeneration || before.Epoch != after.Epoch) {
		events = append(events, store.Event{Type: api.HappenedDocumentObserved, Generation: n})
	}
	for _, c := range after.Conditions {
		was := before.Condition(c.Type)
		if was == nil {
			was = &api.Condition{}
		}
		if was.Status != c.Status || was.Reason != c.Reason {
			e := changed(api.HappenedConditionChanged, string(was.Status), string(c.Status))
			e.Condition, e.Reason, e.Message = c.Type, c.Reason, c.Message
			events = append(events, e)
		}
	}
	for _, c := range before.Conditions {
		if !slices.ContainsFunc(after.Conditions, func(now api.Condition) bool { return now.Type == c.Type }) {
			e := changed(api.HappenedConditionChanged, string(c.Status), "")
			e.Condition = c.Type
			events = append(events, e)
		}
	}
	return events
}
