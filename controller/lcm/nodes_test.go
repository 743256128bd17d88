package lcm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// A node that no topology names is listed for a day after its identity was revoked, so that
// an operator sees what has become of it; then on request.
func TestANodeThatHasLeftIsListedForADay(t *testing.T) {
	w := instantiated(t)
	w.put(spec(grown())) // the second worker never enrolls
	w.must(w.Enrollment.Revoke(w.ctx, masterServer, "by hand"))
	end := scale(api.ScaleIn, api.PhaseEnd, topologyOf(server(storageServer, "storage"), server(masterServer, "master")))
	end.Partial = true
	w.post(end)

	listed := func(instance string, all bool) (ids []string) {
		nodes, err := w.LCM.Nodes.ListNodes(w.ctx, instance, all)
		w.must(err)
		for _, n := range nodes {
			ids = append(ids, n.ID)
		}
		slices.Sort(ids)
		return ids
	}
	ordered := func(ids ...string) []string { slices.Sort(ids); return ids }
	everyOne, inTopology := ordered(storageServer, masterServer, workerServer, secondWorker), ordered(storageServer, masterServer)
	for _, c := range []struct {
		passes time.Duration
		want   []string
	}{
		{0, ordered(storageServer, masterServer, workerServer)},
		{24*time.Hour - time.Nanosecond, ordered(storageServer, masterServer, workerServer)},
		{time.Nanosecond, inTopology},
		{365 * 24 * time.Hour, inTopology},
	} {
		w.Clock.Advance(c.passes)
		for _, instance := range []string{instanceID, ""} {
			if got := listed(instance, false); !slices.Equal(got, c.want) {
				t.Errorf("%s later the nodes of %q are %v, want %v", c.passes, instance, got, c.want)
			}
			if got := listed(instance, true); !slices.Equal(got, everyOne) {
				t.Errorf("%s later all nodes of %q are %v, want %v", c.passes, instance, got, everyOne)
			}
		}
	}
	if n := w.node(workerServer); n.State != api.NodeRevoked {
		t.Errorf("the worker that left is %s, want Revoked", n.State)
	}
	w.put(spec(full())) // which names it again
	if got := listed(instanceID, false); !slices.Contains(got, workerServer) {
		t.Errorf("the worker is in the topology again, and the nodes are %v", got)
	}
}
