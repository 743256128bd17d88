package agentupgrade

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Upgrade begins the rollout of a version, of the controller's own for "", or continues it. It
// fails with agent-not-carried and agent-too-new.
func (s *Service) Upgrade(_ context.Context, version, who string) (api.AgentRollout, error) {
	builds, byName := s.Carried.Builds(), version != ""
	version = cmp.Or(version, s.Version)
	if err := s.mayAskFor(version, builds); err != nil {
		return api.AgentRollout{}, err
	}
	err := s.update(builds, func(r *store.AgentRollout) {
		if r.Version != version {
			s.begin(r, version, byName, who)
		}
		r.ByName = r.ByName || byName
		r.Controller, r.Paused, r.Stopped = s.Version, nil, nil
	})
	if err != nil {
		return api.AgentRollout{}, err
	}
	return s.show(builds)
}

func (s *Service) mayAskFor(version string, builds map[string]api.WantedAgent) error {
	if !s.understands(version) {
		return api.NewProblem(api.ProblemAgentTooNew, fmt.Sprintf(
			"the version %s is not known to be older than this controller, which is %s: upgrade the controller first", version, s.Version))
	}
	if len(of(builds, version)) > 0 {
		return nil
	}
	var found []string
	for _, arch := range slices.Sorted(maps.Keys(builds)) {
		found = append(found, arch+" of "+cmp.Or(builds[arch].Version, "no version"))
	}
	return api.NewProblem(api.ProblemAgentNotCarried, fmt.Sprintf("agentDirectory (%s) has no agent of the version %s; it has %s",
		s.Carried.Path, version, cmp.Or(strings.Join(found, ", "), "none")))
}

// Pause begins no further wave until Upgrade. Again changes nothing.
func (s *Service) Pause(_ context.Context, who string) (api.AgentRollout, error) {
	builds := s.Carried.Builds()
	err := s.update(builds, func(r *store.AgentRollout) {
		if r.Paused == nil {
			r.Paused = &store.RolloutHalt{At: s.time(), By: who}
		}
	})
	if err != nil {
		return api.AgentRollout{}, err
	}
	return s.show(builds)
}

// Rollout is how many nodes have which agent, and how far their upgrade is.
func (s *Service) Rollout(context.Context) (api.AgentRollout, error) {
	return s.show(s.Carried.Builds())
}

func (s *Service) show(builds map[string]api.WantedAgent) (api.AgentRollout, error) {
	var w wave
	idle := false
	err := s.Store.View(func(t *store.Tx) error {
		r, err := t.AgentRollout()
		if err != nil {
			return err
		}
		idle = r.Version == ""
		r.Version = cmp.Or(r.Version, s.Version)
		w, err = s.wave(t, r, builds)
		return err
	})
	if err != nil {
		return api.AgentRollout{}, err
	}
	out := api.AgentRollout{Mode: s.Config.Mode, Version: w.rollout.Version, MaxUnavailable: w.most, PauseSeconds: s.Config.PauseSeconds,
		Wave: w.rollout.Wave, StartedBy: w.rollout.StartedBy, Nodes: w.counts(), InFlight: w.inFlight(), Carried: []api.CarriedAgent{}}
	if !idle {
		out.StartedAt = &w.rollout.StartedAt
	}
	for _, arch := range slices.Sorted(maps.Keys(builds)) {
		b := builds[arch]
		out.Carried = append(out.Carried, api.CarriedAgent{Architecture: arch, Version: b.Version, Sha256: b.SHA256, SizeBytes: b.SizeBytes})
	}
	out.State, out.Message = s.summary(w, idle, out.Nodes)
	return out, nil
}

// summary is the state of the rollout in one word, and what to know of that.
func (s *Service) summary(w wave, idle bool, counts []api.AgentCount) (api.RolloutState, string) {
	r := w.rollout
	switch {
	case r.Paused != nil:
		return api.RolloutPaused, r.Paused.By + " paused it; `hitchctl agents upgrade` continues"
	case r.Stopped != nil:
		return api.RolloutStopped, fmt.Sprintf("the node %s rolled %s back (%s). `hitchctl agents upgrade` continues without the nodes that rolled it back",
			r.Stopped.By, r.Version, cmp.Or(r.Stopped.Message, "it does not say why"))
	case idle:
		if len(w.builds) == 0 {
			return api.RolloutIdle, "agentDirectory has no agent of the controller's version"
		}
		return api.RolloutIdle, "`hitchctl agents upgrade` begins"
	}
	pending := map[api.AgentState]bool{api.AgentWaiting: true, api.AgentInFlightState: true, api.AgentNotReady: true, api.AgentLost: true, api.AgentInOperation: true}
	for _, c := range counts {
		if pending[c.State] {
			return api.RolloutProgressing, ""
		}
	}
	return api.RolloutComplete, ""
}

// counts are the nodes by version and state.
func (w *wave) counts() []api.AgentCount {
	counts := map[api.AgentCount]int{}
	for _, n := range w.nodes {
		counts[api.AgentCount{Version: n.running(), State: w.state(n, false)}]++
	}
	list := make([]api.AgentCount, 0, len(counts))
	for c, nodes := range counts {
		c.Nodes = nodes
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b api.AgentCount) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.State, b.State))
	})
	return list
}

// offered is the reason of a node in flight whose agent has not answered the offer yet.
const offered = "Offered"

func (w *wave) inFlight() []api.AgentInFlight {
	list := []api.AgentInFlight{}
	for _, n := range w.nodes {
		if !n.inFlight() {
			continue
		}
		o, u := n.offer(), n.upgrade()
		f := api.AgentInFlight{NodeID: n.ID, Name: n.Name, VnfInstanceID: n.InstanceID, Version: n.running(), To: o.Version, Wave: o.Wave, Since: o.At, Reason: u.Reason, Message: u.Message}
		switch {
		case !n.present:
			f.Reason = string(api.AgentLost)
		case u.Version == o.Version && u.Reason != api.UpgradeUpToDate:
		case !n.ready:
			f.Reason = string(api.AgentNotReady)
		case n.running() != o.Version:
			f.Reason, f.Message = offered, ""
		}
		list = append(list, f)
	}
	return list
}
