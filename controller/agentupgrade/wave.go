package agentupgrade

import (
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// wave is what decides about the next wave: only what is on record, and which nodes have
// called. A controller that was restarted, or another one, therefore decides the same.
type wave struct {
	rollout store.AgentRollout
	// builds are the agents of the wanted version, by GOARCH: none if the controller must not
	// ask for that version.
	builds map[string]api.WantedAgent
	// most is how many nodes may be in flight at a time.
	most  int
	pause time.Duration
	now   time.Time
	nodes []node // by id
	// paused is until when no wave begins, as next finds it.
	paused time.Time
}

// silence is how long after a change of the wanted version a node has said, by its report,
// whether it was at work on the version before.
const silence = 2 * api.LongestRetry

// next is what is to be written: nodes whose offer is another one, and the rollout if that
// has changed.
func (w *wave) next() (changed []node, rollout store.AgentRollout) {
	changed, rollout = w.finish(), w.rollout
	if n := w.refusing(); n != nil && rollout.Stopped == nil {
		rollout.Stopped = &store.RolloutHalt{At: w.now, By: n.ID, Message: n.upgrade().Message}
	}
	occupied, last := w.occupied()
	w.paused = last.Add(w.pause)
	if !rollout.Halted() && rollout.CompletedAt.IsZero() && w.complete() {
		rollout.CompletedAt = w.now
	}
	if rollout.Halted() || w.now.Before(w.paused) {
		return changed, rollout
	}
	for _, n := range w.told(w.most - occupied) {
		n.AgentOffer = &store.AgentOffer{WantedAgent: w.build(*n), Wave: w.rollout.Wave + 1, At: w.now}
		rollout.Wave, rollout.CompletedAt = n.AgentOffer.Wave, time.Time{}
		changed = append(changed, *n)
	}
	return changed, rollout
}

// complete reports whether no node is left to wait for.
func (w *wave) complete() bool {
	return !slices.ContainsFunc(w.nodes, func(n node) bool { return pending(w.state(n, false)) })
}

// finish notes whose upgrade is over, and takes back from the others what is not wanted any
// more and what they have not begun.
func (w *wave) finish() (changed []node) {
	for i := range w.nodes {
		n := &w.nodes[i]
		switch {
		case !n.inFlight():
			continue
		case n.over():
			over := *n.offer()
			over.OverAt = w.now
			n.AgentOffer = &over
		case n.running() == w.rollout.Version && n.well() && w.now.After(w.rollout.StartedAt.Add(silence)):
			n.AgentOffer = nil
		default:
			continue
		}
		changed = append(changed, *n)
	}
	return changed
}

// occupied is how many places are taken, and when the upgrade of a node began or was over last.
func (w *wave) occupied() (places int, last time.Time) {
	for _, n := range w.nodes {
		if n.occupiesPlace(w.rollout.Version) {
			places++
		}
		if o := n.offer(); o != nil && !o.At.Before(w.rollout.StartedAt) {
			last = later(last, o.At, o.OverAt)
		}
	}
	return places, last
}

// giveUp leaves out the nodes that refuse the wanted version: an operator goes on without them.
func (w *wave) giveUp() (changed []node) {
	for n := w.refusing(); n != nil; n = w.refusing() {
		n.AgentOffer = &store.AgentOffer{WantedAgent: w.build(*n), Wave: w.rollout.Wave, At: w.now, GivenUp: true}
		changed = append(changed, *n)
	}
	return changed
}

func later(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// refusing is the first node that has rolled the wanted version back and that no operator has
// given up; nil for none.
func (w *wave) refusing() *node {
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.refuses(w.build(*n)) && !n.givenUp(w.build(*n)) {
			return n
		}
	}
	return nil
}

// build is the wanted build for a node; without one that is carried its version alone.
func (w *wave) build(n node) api.WantedAgent {
	if n.Agent != nil {
		if build, ok := w.builds[n.Agent.Architecture]; ok {
			return build
		}
	}
	return api.WantedAgent{Version: w.rollout.Version}
}

// told are the nodes whose turn it is: so many in the order of their ids, and those that have
// been told something else before and are still in flight, which take no place of another.
func (w *wave) told(places int) (turn []*node) {
	for i := range w.nodes {
		n := &w.nodes[i]
		if w.state(*n, n.inFlight()) != api.AgentWaiting {
			continue
		}
		if n.inFlight() {
			if n.offer().WantedAgent != w.build(*n) {
				turn = append(turn, n)
			}
			continue
		}
		if places > 0 {
			turn, places = append(turn, n), places-1
		}
	}
	return turn
}

// state is where a node is on its way to the wanted version. again takes it for one that was
// told nothing yet.
func (w *wave) state(n node, again bool) api.AgentState {
	switch {
	case !again && n.inFlight():
		return api.AgentInFlightState
	case n.running() == w.rollout.Version:
		return api.AgentUpToDate
	case n.refuses(w.build(n)), n.givenUp(w.build(n)):
		return api.AgentRolledBack
	case n.upgrade().ManagedBy == api.ManagedByPackage:
		return api.AgentManagedByPackage
	case n.upgrade().ManagedBy == api.ManagedByNone:
		return api.AgentUpgradeDisabled
	case !n.present:
		return api.AgentLost
	case n.reported() == nil:
		return api.AgentNotReady
	case !n.managed():
		return api.AgentNotSupported
	case w.build(n).SHA256 == "":
		return api.AgentNotCarried
	case w.downgrades(n):
		return api.AgentNewer
	case n.busy:
		return api.AgentInOperation
	case !n.ready, n.switching():
		return api.AgentNotReady
	}
	return api.AgentWaiting
}

// downgrades reports whether the node is known to run a newer agent, and no operator asked
// for the older one.
func (w *wave) downgrades(n node) bool {
	order, known := compareBuilds(n.running(), w.rollout.Version)
	return !w.rollout.ByName && known && order > 0
}

// managed is how many nodes there are whose agent the controller manages.
func managed(nodes []node) (count int) {
	for _, n := range nodes {
		if n.managed() {
			count++
		}
	}
	return count
}
