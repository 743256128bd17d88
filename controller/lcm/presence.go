package lcm

import (
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// presence is what is known of nodes in memory only: when they were heard of last
// and what they are doing. A restart forgets it; silence then counts from the start.
type presence struct {
	mu      sync.Mutex
	started time.Time
	nodes   map[string]heard
}

// heard is the last sign of life of a node.
type heard struct {
	at       time.Time
	activity *api.Activity
	// lost: newlyLost found the node silent for too long, and what depends on it is
	// planned again. Everyone reads this and nobody else the clock: otherwise time alone
	// would change what a plan decides, with nothing that calls for another plan.
	lost bool
}

// start is the moment from which silence counts.
func (p *presence) start(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(now)
}

func (p *presence) begin(now time.Time) {
	if p.started.IsZero() {
		p.started = now
		p.nodes = make(map[string]heard)
	}
}

// seen notes a sign of life and says whether the node was lost before.
func (p *presence) seen(id string, now time.Time) (back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(now)
	h := p.nodes[id]
	back = h.lost
	h.at, h.lost = now, false
	p.nodes[id] = h
	return back
}

// doing notes what the node is at and says whether that is news.
func (p *presence) doing(id string, activity *api.Activity, now time.Time) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(now)
	h := p.nodes[id]
	news = !same(h.activity, activity)
	h.activity = activity
	p.nodes[id] = h
	return news
}

// last is the last sign of life, zero for none since the start, and the activity.
func (p *presence) last(id string) (time.Time, *api.Activity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.nodes[id]
	return h.at, h.activity
}

// lost says whether the node was silent for too long when newlyLost last looked.
func (p *presence) lost(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes[id].lost
}

// enrolled notes the call by which a node got its identity, so that it is missed also
// where it never calls again.
func (p *presence) enrolled(id string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(at)
	h := p.nodes[id]
	if at.After(p.since(h)) {
		h.at, h.lost = at, false
	}
	p.nodes[id] = h
}

// expect has the silence of a node count that has not been heard of since the start.
func (p *presence) expect(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.nodes[id]; !known {
		p.nodes[id] = heard{}
	}
}

// newlyLost is the nodes that fell silent since the last call.
func (p *presence) newlyLost(now time.Time, patience time.Duration) (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(now)
	for id, h := range p.nodes {
		if !h.lost && now.Sub(p.since(h)) > patience {
			h.lost, h.activity = true, nil
			p.nodes[id] = h
			ids = append(ids, id)
		}
	}
	return ids
}

// since is when a node's silence began.
func (p *presence) since(h heard) time.Time {
	if h.at.Before(p.started) {
		return p.started
	}
	return h.at
}

// forget drops a node that has no record any more.
func (p *presence) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, id)
}
