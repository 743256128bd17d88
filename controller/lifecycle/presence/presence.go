// Package presence knows when each node was heard of last, and what it is doing. It is
// in memory only: a restart forgets it, and silence then counts from the start.
package presence

import (
	"slices"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// lostAfter is how many poll intervals a node may be silent.
const lostAfter = 3

// toldEvery is the least time between two losses of a node that are told. A loss that comes earlier
// is told later, if the node is still lost then.
const toldEvery = 10 * time.Minute

// Presence is safe for concurrent use. Its fields are set before use.
type Presence struct {
	Now func() time.Time
	// PollInterval is how often a node is heard of at least: the controller's long poll.
	PollInterval time.Duration

	mu      sync.Mutex
	started time.Time
	nodes   map[string]contact
	changes []Change
}

// Change is a node that was lost, or is back.
type Change struct {
	NodeID string
	Lost   bool
	// Silence is for how long it had not called.
	Silence time.Duration
}

// contact is the last sign of life of a node.
type contact struct {
	at       time.Time
	activity *api.Activity
	// agent is what the agent said of itself in its last poll, nil if that is on record.
	agent *api.Agent
	// lost: NewlyLost found the node silent for too long, and what depends on it is
	// planned again. All decisions read this and not the clock: otherwise time alone
	// would change what a plan decides, with nothing that calls for another plan.
	lost bool
	// toldAt is when its loss was told last. told: it was, and that it is back is not yet.
	toldAt time.Time
	told   bool
}

// Changes are those that are to be told, in order: of a node at most one loss, and that it is
// back, in ten minutes. Drop takes the first ones away once they are told.
func (p *Presence) Changes() []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.changes)
}

// Drop forgets the first n changes.
func (p *Presence) Drop(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = slices.Clone(p.changes[n:])
}

// change notes a change of a node if it is to be told.
func (p *Presence) change(id string, h *contact, now time.Time, lost bool) {
	switch {
	case lost && !h.told && (h.toldAt.IsZero() || now.Sub(h.toldAt) >= toldEvery):
		h.told, h.toldAt = true, now
	case !lost && h.told:
		h.told = false
	default:
		return
	}
	p.changes = append(p.changes, Change{NodeID: id, Lost: lost, Silence: now.Sub(p.since(*h))})
}

// Start makes this the moment from which silence counts.
func (p *Presence) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(p.Now())
}

func (p *Presence) begin(now time.Time) {
	if p.started.IsZero() {
		p.started = now
		p.nodes = make(map[string]contact)
	}
}

// Seen notes a sign of life and reports whether the node was lost before.
func (p *Presence) Seen(id string) (back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	p.begin(now)
	h := p.nodes[id]
	if back = h.lost; back {
		p.change(id, &h, now, false)
	}
	h.at, h.lost = now, false
	p.nodes[id] = h
	return back
}

// Doing notes what the node is at and reports whether that is news.
func (p *Presence) Doing(id string, activity *api.Activity) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(p.Now())
	h := p.nodes[id]
	news = !store.Same(h.activity, activity)
	h.activity = activity
	p.nodes[id] = h
	return news
}

// Says notes what the node's agent says of itself until it is on record; nil once it is.
func (p *Presence) Says(id string, agent *api.Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(p.Now())
	h := p.nodes[id]
	h.agent = agent
	p.nodes[id] = h
}

// Said is what Says has noted, nil for nothing.
func (p *Presence) Said(id string) *api.Agent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes[id].agent
}

// Last is the last sign of life, zero for none since the start, and the activity.
func (p *Presence) Last(id string) (time.Time, *api.Activity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.nodes[id]
	return h.at, h.activity
}

// Lost reports whether the node was silent for too long when NewlyLost was called last.
func (p *Presence) Lost(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes[id].lost
}

// Heard reports whether the node has an identity and is not lost.
func (p *Presence) Heard(n store.Node) bool { return n.Identity.Live() && !p.Lost(n.ID) }

// Enrolled notes the call by which a node got its identity, so that it is missed also
// if it never calls again.
func (p *Presence) Enrolled(id string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(at)
	h := p.nodes[id]
	if at.After(p.since(h)) {
		if h.lost {
			p.change(id, &h, at, false)
		}
		h.at, h.lost = at, false
	}
	p.nodes[id] = h
}

// Expect makes the silence of a node count that has not been heard of since the start.
func (p *Presence) Expect(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.nodes[id]; !known {
		p.nodes[id] = contact{}
	}
}

// NewlyLost is the nodes that fell silent since the last call.
func (p *Presence) NewlyLost() (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	p.begin(now)
	for id, h := range p.nodes {
		switch {
		case h.lost && !h.told:
		case !h.lost && now.Sub(p.since(h)) > lostAfter*p.PollInterval:
			h.lost, h.activity = true, nil
			ids = append(ids, id)
		default:
			continue
		}
		p.change(id, &h, now, true)
		p.nodes[id] = h
	}
	return ids
}

// since is when a node's silence began.
func (p *Presence) since(h contact) time.Time {
	if h.at.Before(p.started) {
		return p.started
	}
	return h.at
}

// Forget drops a node that has no record any more.
func (p *Presence) Forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, id)
}
