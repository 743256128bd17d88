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
	err := s.update(builds, who, func(r *store.AgentRollout) {
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
	err := s.update(builds, who, func(r *store.AgentRollout) {
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

func (s *Service) show(builds map[string]api.WantedAgent) (out api.AgentRollout, err error) {
	err = s.Store.View(func(t *store.Tx) error {
		c, err := s.counts(t, builds)
		if err != nil {
			return err
		}
		err = t.Nodes().Each(c.Add)
		out = c.Rollout()
		return err
	})
	return out, err
}

// summary is the state of the rollout in one word, and what to know of that.
func (w *wave) summary(idle bool, counts []api.AgentCount) (api.RolloutState, string) {
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
	for _, c := range counts {
		if pending(c.State) {
			return api.RolloutProgressing, ""
		}
	}
	return api.RolloutComplete, ""
}

// pending reports whether the upgrade waits for a node of that state.
func pending(s api.AgentState) bool {
	switch s {
	case api.AgentWaiting, api.AgentInFlightState, api.AgentNotReady, api.AgentLost, api.AgentInOperation:
		return true
	}
	return false
}
