// Package agentupgrade decides which agent each node shall run, and when it is told. The
// nodes follow in waves, in the order of their ids. What a node was told is on record with
// it, and everything else is what nodes report: a restart, a restored backup and another
// controller continue where this one ends.
package agentupgrade

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// Service upgrades agents. Its exported fields are set before use; its methods may be called
// at the same time. Errors that a client should see are *api.Problem.
type Service struct {
	Store    *store.Store
	Hub      *notify.Hub
	Presence *presence.Presence
	Carried  *Directory
	Config   config.AgentUpgrade
	// Version is the controller's.
	Version string
	Now     func() time.Time
	Log     *slog.Logger

	// told are the SHA-256 of the agents that nodes were told last, by node id. A node that
	// is told once more after a restart does nothing else.
	told sync.Map
}

const (
	// sweepEvery is the least time between two sweeps, sweepAtLeast the most: what nodes do
	// wakes a sweep, what an operator does to agentDirectory does not.
	sweepEvery   = time.Second
	sweepAtLeast = time.Minute
	// sweepShare is how much longer the time between two sweeps is than a sweep, which reads
	// every node.
	sweepShare = 20
)

// Run sweeps until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for ctx.Err() == nil {
		changed, stop := s.Hub.Watch(notify.Nodes)
		began := time.Now()
		pause, err := s.Sweep()
		if err != nil {
			s.Log.Error("the upgrade of agents cannot continue", "error", err)
		}
		_ = sleep.For(ctx, max(sweepEvery, sweepShare*time.Since(began)), nil)
		if pause == 0 {
			pause = sweepAtLeast
		}
		_ = sleep.For(ctx, min(pause, sweepAtLeast), changed)
		stop()
	}
}

// Sweep tells the nodes whose turn it is, notes those that are healthy, and stops for one that
// has rolled back. Without a change it writes nothing. pause is how long the next wave has to
// wait for the end of a pause, 0 if it does not.
func (s *Service) Sweep() (pause time.Duration, err error) {
	builds := s.Carried.Builds()
	var d decision
	err = s.Store.View(func(t *store.Tx) (err error) {
		d, err = s.decide(t, builds, nil)
		return err
	})
	if err != nil || d.empty() {
		return d.pause, err
	}
	return 0, s.update(builds, "", nil)
}

// ask is what an operator asks for: a change of the rollout.
type ask func(*store.AgentRollout)

// update decides once more, now alone among writers, and writes it. who asks, "" for nobody.
func (s *Service) update(builds map[string]api.WantedAgent, who string, ask ask) error {
	var d decision
	err := s.Store.Update(func(t *store.Tx) (err error) {
		t.By(who)
		if d, err = s.decide(t, builds, ask); err != nil || d.empty() {
			return err
		}
		for _, n := range d.changed {
			if err := t.Nodes().Put(n.ID, n.Node); err != nil {
				return err
			}
		}
		return t.PutAgentRollout(d.after)
	})
	if err != nil || d.empty() {
		return err
	}
	s.Hub.Changed(append(d.wakes(), notify.Nodes)...)
	d.log(s.Log)
	return nil
}

// decide is what is to be written.
func (s *Service) decide(t *store.Tx, builds map[string]api.WantedAgent, ask ask) (d decision, err error) {
	if d.before, err = t.AgentRollout(); err != nil {
		return d, err
	}
	d.after = d.before
	if s.isDue(d.after, builds) {
		s.begin(&d.after, s.Version, false, byItself)
	}
	if ask != nil {
		ask(&d.after)
	}
	if d.after.Version == "" {
		return d, nil
	}
	w := s.wave(d.after, builds)
	if w.nodes, err = s.read(t); err != nil {
		return d, err
	}
	w.most = s.Config.MaxUnavailable.Of(managed(w.nodes))
	if ask != nil {
		d.changed = w.giveUp()
	}
	d.nodes = w.nodes
	changed, after := w.next()
	d.changed, d.after, d.pause = append(d.changed, changed...), after, max(0, w.paused.Sub(w.now))
	return d, nil
}

// wave is the situation in which a rollout is, without the nodes.
func (s *Service) wave(r store.AgentRollout, builds map[string]api.WantedAgent) wave {
	w := wave{rollout: r, now: s.time(), pause: time.Duration(s.Config.PauseSeconds) * time.Second}
	if s.understands(r.Version) {
		w.builds = of(builds, r.Version)
	}
	return w
}

// understands reports whether the controller may ask for an agent of the version: of its own
// one, or of one that is known to be older.
func (s *Service) understands(version string) bool {
	order, known := compareBuilds(version, s.Version)
	return known && order <= 0
}

// byItself is who begins a rollout that no operator asked for.
const byItself = "controller"

// isDue reports whether the controller is to begin a rollout by itself.
func (s *Service) isDue(r store.AgentRollout, builds map[string]api.WantedAgent) bool {
	return s.Config.Mode == api.UpgradeAutomatically && r.Controller != s.Version && r.Paused == nil && len(of(builds, s.Version)) > 0
}

func (s *Service) begin(r *store.AgentRollout, version string, byName bool, who string) {
	*r = store.AgentRollout{Version: version, ByName: byName, Controller: s.Version, StartedAt: s.time(), StartedBy: who}
}

// time has no reading of the monotonic clock, as a time in a record.
func (s *Service) time() time.Time { return s.Now().UTC().Round(0) }

// of are the builds of one version.
func of(builds map[string]api.WantedAgent, version string) map[string]api.WantedAgent {
	builds = maps.Clone(builds)
	maps.DeleteFunc(builds, func(_ string, b api.WantedAgent) bool { return b.Version != version })
	return builds
}

// Wanted is the agent that a node is told to become with the answer of its poll; nil for none.
// It reads more than the node's record only while the node is in flight.
func (s *Service) Wanted(record store.Node, agent api.Agent) (*api.WantedAgent, error) {
	o := node{Node: record}.offer()
	if o == nil || o.GivenUp || !o.OverAt.IsZero() || agent.Version == o.Version || !s.understands(o.Version) {
		return nil, nil
	}
	var rollout store.AgentRollout
	err := s.Store.View(func(t *store.Tx) (err error) {
		rollout, err = t.AgentRollout()
		return err
	})
	if err != nil || rollout.Halted() || rollout.Version != o.Version {
		return nil, err
	}
	build, carried := s.Carried.Build(agent.Architecture)
	if !carried || build != o.WantedAgent {
		return nil, nil // there is nothing to download
	}
	return &build, nil
}

// Open opens the agent for an architecture; see Directory.Open.
func (s *Service) Open(arch string) (*os.File, api.WantedAgent, error) { return s.Carried.Open(arch) }

// IsNews reports whether the node was not told the agent yet, as far as is known.
func (s *Service) IsNews(nodeID string, wanted api.WantedAgent) bool {
	sha256, _ := s.told.Load(nodeID)
	return sha256 != wanted.SHA256
}

// Told notes what the node was told.
func (s *Service) Told(nodeID string, wanted api.WantedAgent) { s.told.Store(nodeID, wanted.SHA256) }
