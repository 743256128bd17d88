package lcm_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// asMembers asks for cluster_members besides.
func asMembers(s api.InstanceSpec) api.InstanceSpec {
	s.AdditionalParams = json.RawMessage(strings.Replace(string(s.AdditionalParams), `"script_path"`, `"cluster_members": {}, "script_path"`, 1))
	return s
}

// makers are the masters whose machines have read that they are to make the cluster, each with
// the time of its enrollment: another machine has read nothing.
type makers map[string]time.Time

// Whatever happens in whatever order: no two machines of the topology make a cluster, unless an
// operator has taken the first one's identity, and no secret of the whole cluster is with more
// than one master. All else that must be true of an instance is, too.
func TestNoOrderOfEventsMakesTwoClusters(t *testing.T) {
	began := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		h := newHistory(rt, dir, asMembers)
		h.members = true
		h.keeps(tx.Kept)
		made, events := makers{}, h.events()
		h.after = func(t *rapid.T) { h.check(t); h.checkMakers(t, made) }
		events["tell of the cluster"] = h.tellOfTheCluster
		events[""] = h.after
		rt.Repeat(events)
		began += len(made)
	})
	if began == 0 && !testing.Short() {
		t.Error("no cluster was ever made: let the events enroll masters")
	}
}

// checkMakers wants no other machine to be told that it makes the cluster while one may.
func (h *history) checkMakers(t *rapid.T, made makers) {
	told := map[string]bool{}
	for _, n := range h.nodes() {
		config := h.config(n.ID)
		present := slices.Contains(h.instance().Nodes, n.ID) && (n.State == api.NodeEnrolled || n.State == api.NodeLost)
		if !present || !n.EnrolledAt.Equal(made[n.ID]) {
			delete(made, n.ID)
		}
		told[n.ID] = present && config.Cluster != nil && config.Cluster.Initialize
	}
	for id, is := range told {
		for other := range made {
			if is && other != id {
				t.Fatalf("%s is told to make the cluster, and %s may be making it", id, other)
			}
		}
	}
	for id, is := range told {
		if is { // it may poll at any moment
			made[id] = *h.node(id).EnrolledAt
		}
	}
}

// tellOfTheCluster is the owner's report with what it knows of the cluster.
func (h *history) tellOfTheCluster(t *rapid.T) {
	for _, n := range h.nodes() {
		if n.Role == api.RoleMaster && h.machines[n.ID] != nil && h.poll(t, n.ID) {
			said := h.machines[n.ID].said
			s := said[len(said)-1]
			s.Cluster = facts()
			h.tell(n.ID, s)
		}
	}
}
