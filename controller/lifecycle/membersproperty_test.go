package lifecycle_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// makers are the masters whose machines have read that they are to make the cluster, each with
// the time of its enrollment: another machine has read nothing.
type makers map[string]time.Time

// checkMakers wants no other machine of the topology to be told that it makes the cluster while
// one may, unless an operator has taken the identity of that one.
func (h *history) checkMakers(t *rapid.T) {
	told := map[string]bool{}
	for _, n := range h.nodes() {
		config := h.Document(n.ID)
		present := slices.Contains(h.Instance().Nodes, n.ID) && (n.State == api.NodeEnrolled || n.State == api.NodeLost)
		if !present || !n.EnrolledAt.Equal(h.makers[n.ID]) {
			delete(h.makers, n.ID)
		}
		told[n.ID] = present && config.Cluster != nil && config.Cluster.Initialize
	}
	for id, is := range told {
		for other := range h.makers {
			if is && other != id {
				t.Fatalf("%s is told to make the cluster, and %s may be making it", id, other)
			}
		}
	}
	for id, is := range told {
		if is { // it may poll at any moment
			h.made++
			h.makers[id] = *h.Node(id).EnrolledAt
		}
	}
}

// tellOfTheCluster is the owner's report with what it knows of the cluster.
func (h *history) tellOfTheCluster(t *rapid.T) {
	for _, n := range h.nodes() {
		if n.Role == api.RoleMaster && h.machines[n.ID] != nil && h.poll(t, n.ID) {
			said := h.machines[n.ID].said
			s := said[len(said)-1]
			s.Cluster = lifecycletest.ClusterFacts()
			h.tell(n.ID, s)
		}
	}
}

// joinsNothing is the report of a master that has joined no cluster.
func (h *history) joinsNothing(t *rapid.T, id string) {
	if !slices.Contains(h.Instance().Nodes, id) || !h.poll(t, id) {
		return
	}
	said := h.machines[id].said
	s := said[len(said)-1]
	s.Conditions, s.AppliedDigest = slices.Clone(s.Conditions), "old"
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == api.ConditionClusterMember || c.Type == api.ConditionReady {
			c.Status, c.Reason = api.ConditionFalse, api.ReasonNotJoined
		}
	}
	h.tell(id, s)
}

// mastersCome is a stack of two masters whose machines come one after another, and do not join
// yet. Any of them may fall silent in between.
func (h *history) mastersCome(t *rapid.T) {
	err := h.tryPut(lifecycletest.WithVolumes(lifecycletest.TopologyOf(pool[0], pool[2], pool[3], pool[4])))
	if h.unless(err); err == nil {
		h.observed = time.Time{}
	}
	h.after(t)
	for _, s := range rapid.Permutation([]api.Server{pool[2], pool[3]}).Draw(t, "come") {
		h.join(s.ID)
		h.after(t)
		if rapid.IntRange(0, 3).Draw(t, "says that it has joined nothing") > 0 {
			h.joinsNothing(t, s.ID)
			h.after(t)
		}
		for range rapid.SampledFrom([]int{0, 4}).Draw(t, "poll intervals of silence") {
			h.Clock.Advance(lifecycletest.PollInterval)
			h.Must(h.Lifecycle.Sweep(h.Ctx))
		}
		h.after(t)
	}
}
