package event

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// ofNone is the instance of what is of no instance.
const ofNone = ""

// restored: the state began another epoch.
func (h *derivation) restored(c *store.Change[int64], from *store.Origin) {
	if c == nil {
		return
	}
	e := changed(api.HappenedStateRestored, strconv.FormatInt(*c.Before, 10), strconv.FormatInt(*c.After, 10))
	e.Message = from.String()
	h.add(ofNone, e)
}

func (h *derivation) token(c store.Change[store.Token]) {
	after := c.After
	if after == nil {
		return
	}
	var before store.Token
	if c.Before != nil {
		before = *c.Before
	}
	e := store.Event{TokenID: after.ID, TokenName: bounded(after.Name)}
	switch {
	case after.RevokedAt != nil && before.RevokedAt == nil:
		e.Type = api.HappenedTokenRevoked
	case c.Before == nil:
		e.Type, e.Message = api.HappenedTokenCreated, "scope "+string(after.Scope)
		if after.ExpiresAt != nil {
			e.Message += ", until " + after.ExpiresAt.UTC().Format(time.RFC3339)
		}
	case after.Expired && !before.Expired:
		e.Type, e.Message = api.HappenedTokenExpired, "on "+after.ExpiresAt.UTC().Format(time.RFC3339)
	case after.Epoch != before.Epoch:
		e.Type = api.HappenedTokenConfirmed
	default:
		return
	}
	h.add(ofNone, e)
}

// rollout is what happened to the upgrade of agents. A wave is told with how many nodes it has.
func (h *derivation) rollout(c *store.Change[store.AgentRollout], nodes []store.Change[store.Node]) {
	if c == nil {
		return
	}
	before, after := *c.Before, *c.After
	add := func(what api.EventType, e store.Event) {
		e.Type, e.To = what, after.Version
		h.add(ofNone, e)
	}
	begins := !after.StartedAt.Equal(before.StartedAt)
	if begins {
		add(api.HappenedRolloutStarted, store.Event{From: before.Version})
		before = store.AgentRollout{}
	}
	if before.Halted() && !after.Halted() {
		add(api.HappenedRolloutContinued, store.Event{})
	}
	if after.Wave != before.Wave {
		add(api.HappenedRolloutWave, store.Event{Message: fmt.Sprintf("wave %d, nodes: %d", after.Wave, told(nodes, after))})
	}
	if after.Paused != nil && before.Paused == nil {
		add(api.HappenedRolloutPaused, store.Event{})
	}
	if s := after.Stopped; s != nil && before.Stopped == nil {
		add(api.HappenedRolloutStopped, store.Event{NodeID: s.By, Message: "the node " + s.By + " rolled it back: " + cmp.Or(s.Message, "it does not say why")})
	}
	if !after.CompletedAt.IsZero() && !after.CompletedAt.Equal(before.CompletedAt) {
		add(api.HappenedRolloutCompleted, store.Event{})
	}
}

// told is how many of the nodes the last wave was told. One that is over may be of the rollout before.
func told(nodes []store.Change[store.Node], r store.AgentRollout) (count int) {
	for _, c := range nodes {
		if n := c.After; n != nil && n.AgentOffer != nil && n.AgentOffer.Wave == r.Wave && n.AgentOffer.OverAt.IsZero() {
			count++
		}
	}
	return count
}
