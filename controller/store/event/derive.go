package event

import (
	"cmp"
	"errors"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// most bounds the texts of an event, which come from outside.
const most = 300

// bounded is the text, cut off at a character if it is too long.
func bounded(text string) string {
	if len(text) <= most {
		return text
	}
	const ellipsis = "…"
	cut := most - len(ellipsis)
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + ellipsis
}

// derivation is what a transaction means.
type derivation struct {
	events map[string][]store.Event // by instance
	ends   []end
	steps  []step
}

func (h *derivation) add(instanceID string, e store.Event) {
	e.Message, e.Reason, e.From, e.To = bounded(e.Message), bounded(e.Reason), bounded(e.From), bounded(e.To)
	h.events[instanceID] = append(h.events[instanceID], e)
}

// derive is what the transaction means, in the order of cause and effect: what begins, what it
// does, what ends.
func derive(t *store.Tx) (*derivation, error) {
	instances, err1 := ordered(t.Instances())
	operations, err2 := ordered(t.Operations())
	nodes, err3 := ordered(t.Nodes())
	volumes, err4 := ordered(t.Volumes())
	tokens, err5 := ordered(t.Tokens())
	rollout, err6 := t.AgentRolloutChange()
	epochs, origin, err7 := t.Restored()
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return nil, err
	}
	h := &derivation{events: map[string][]store.Event{}}
	h.restored(epochs, origin)
	for _, c := range tokens {
		h.token(c)
	}
	h.rollout(rollout, nodes)
	for _, c := range instances {
		h.instance(c)
		if err := h.wave(t, c); err != nil {
			return nil, err
		}
	}
	for _, c := range operations {
		h.operationBegins(c)
	}
	for _, c := range nodes {
		h.node(c)
	}
	for _, c := range volumes {
		h.volume(c)
	}
	for _, c := range operations {
		h.operationEnds(c)
	}
	for _, told := range t.Told() {
		h.add(told.InstanceID, told.Event)
	}
	return h, nil
}

// ordered are the changed records by their keys.
func ordered[T any](c store.Collection[T]) ([]store.Change[T], error) {
	changes, err := c.Changes()
	slices.SortFunc(changes, func(a, b store.Change[T]) int { return cmp.Compare(a.Key, b.Key) })
	return changes, err
}

// changed is an event of a type about what was, and is.
func changed(what api.EventType, from, to string) store.Event {
	return store.Event{Type: what, From: from, To: to}
}
