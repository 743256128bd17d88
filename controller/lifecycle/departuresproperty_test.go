package lifecycle_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// drawStack is drawStack, with a second worker if the history has cluster_members: else no worker
// could leave.
func (h *history) drawStack(t *rapid.T) *api.Topology {
	s := drawStack(t)
	if s != nil && h.members && rapid.Bool().Draw(t, "a second worker") {
		s.Servers = append(s.Servers, lifecycletest.Server(lifecycletest.SecondWorker, "worker"))
	}
	return s
}

// runCluster does what the owner's agent does: the members that are listed get Nodes, those that
// are to leave lose them, unless one cannot be drained.
func (h *history) runCluster(config api.NodeConfig, status *api.NodeStatus) {
	for _, m := range config.ClusterMembers.Members {
		h.inCluster[m.ServerID] = true
	}
	c := status.Condition(api.ConditionClusterMembersLeft)
	c.Reason = api.ReasonMembersLeft
	for _, m := range config.ClusterDepartures.Members {
		if !h.stuck[m.ServerID] {
			delete(h.inCluster, m.ServerID)
		} else if h.inCluster[m.ServerID] {
			c.Status, c.Reason = api.ConditionFalse, api.ReasonEvictionBlocked
			status.Condition(api.ConditionReady).Status = api.ConditionFalse
			status.AppliedDigest = "old"
		}
	}
}

// clusterAny instantiates a cluster and lets all its servers join, so that some can leave and
// others stay.
func (h *history) clusterAny(t *rapid.T) {
	whole := lifecycletest.TopologyOf(pool[rapid.IntRange(0, 1).Draw(t, "storage server")], pool[2], pool[3], pool[4], lifecycletest.Server(lifecycletest.SecondWorker, "worker"))
	h.posted(t, api.OperationRequest{Operation: api.Instantiate, Topology: whole, DeadlineSeconds: 3600})
	for range 3 {
		h.convergeAny(t)
	}
}

// leaveAny is a START that names servers of the stack in force.
func (h *history) leaveAny(t *rapid.T) {
	r := rapid.SampledFrom([]api.OperationRequest{lifecycletest.Heal(api.PhaseStart, nil), lifecycletest.ScaleInStart()}).Draw(t, "operation")
	r.AspectID = ""
	if top := h.Instance().Topology; top != nil {
		for _, s := range top.Servers {
			if s.Name != "storage" && rapid.IntRange(0, 2).Draw(t, s.ID) == 0 {
				r.VnfcInstanceIds = append(r.VnfcInstanceIds, s.ID)
			}
		}
	}
	if len(r.VnfcInstanceIds) == 0 {
		t.Skip("nobody leaves")
	}
	r.Force = rapid.IntRange(0, 3).Draw(t, "by force") == 0
	r.DeadlineSeconds = rapid.SampledFrom([]int{60, 3600}).Draw(t, "deadline")
	r.IdempotencyKey = rapid.SampledFrom([]string{"", "", "e"}).Draw(t, "key")
	h.posted(t, r)
	for range rapid.IntRange(0, 3).Draw(t, "how often it converges") {
		h.convergeAny(t)
	}
}

// stickAny is a Pod that cannot be evicted from a Node, or can be again.
func (h *history) stickAny(t *rapid.T) {
	id := rapid.SampledFrom(append([]string{lifecycletest.SecondWorker}, pool[2].ID, pool[3].ID, pool[4].ID)).Draw(t, "server")
	h.stuck[id] = !h.stuck[id] && rapid.Bool().Draw(t, "stuck")
}

// checkLeft wants the members that a START has leave to have no Node once it is over.
func (h *history) checkLeft(t *rapid.T, start api.Operation) {
	if len(start.Leaving) > 0 && !start.Force {
		h.left++
	}
	for _, m := range start.Leaving {
		if h.inCluster[m.NodeID] && !start.Force {
			t.Fatalf("START %+v completed, and %s is in the cluster", start, m.NodeID)
		}
	}
}

// checkMembers: one master at most speaks, not one that leaves, and what it is asked is what is
// desired.
func (h *history) checkMembers(t *rapid.T) {
	leaving, speaker := h.desiredNow().Leaving, ""
	for id, config := range h.documents() {
		s := config.ClusterDepartures
		if s == nil {
			continue
		}
		if speaker != "" || slices.Contains(leaving, id) {
			t.Fatalf("%s is asked to let %+v leave, and so is %q", id, s, speaker)
		}
		speaker = id
		for _, m := range s.Members {
			if !slices.Contains(leaving, m.ServerID) {
				t.Fatalf("%s is asked to let %s leave, and only %v are to", id, m.ServerID, leaving)
			}
		}
		for _, m := range config.ClusterMembers.Members {
			if slices.Contains(leaving, m.ServerID) {
				t.Fatalf("%s leaves, and %s keeps its token valid", m.ServerID, id)
			}
		}
	}
}
