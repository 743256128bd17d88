package node_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A node that no topology names is listed for a day after its identity was revoked, so that
// an operator sees what has become of it; then on request.
func TestANodeThatHasLeftIsListedForADay(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Put(lifecycletest.Spec(lifecycletest.GrownTopology())) // the second worker never enrolls
	w.Must(w.Enrollment.Revoke(w.Ctx, lifecycletest.MasterServer, "by hand"))
	end := lifecycletest.Scale(api.ScaleIn, api.PhaseEnd, lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master")))
	end.Partial = true
	w.Post(end)

	listed := func(instance string, all bool) (ids []string) {
		nodes, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, instance, all)
		w.Must(err)
		for _, n := range nodes {
			ids = append(ids, n.ID)
		}
		slices.Sort(ids)
		return ids
	}
	ordered := func(ids ...string) []string { slices.Sort(ids); return ids }
	everyOne, inTopology := ordered(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer, lifecycletest.SecondWorker), ordered(lifecycletest.StorageServer, lifecycletest.MasterServer)
	for _, c := range []struct {
		passes time.Duration
		want   []string
	}{
		{0, ordered(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)},
		{24*time.Hour - time.Nanosecond, ordered(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)},
		{time.Nanosecond, inTopology},
		{365 * 24 * time.Hour, inTopology},
	} {
		w.Clock.Advance(c.passes)
		for _, instance := range []string{lifecycletest.InstanceID, ""} {
			if got := listed(instance, false); !slices.Equal(got, c.want) {
				t.Errorf("%s later the nodes of %q are %v, want %v", c.passes, instance, got, c.want)
			}
			if got := listed(instance, true); !slices.Equal(got, everyOne) {
				t.Errorf("%s later all nodes of %q are %v, want %v", c.passes, instance, got, everyOne)
			}
		}
	}
	if n := w.Node(lifecycletest.WorkerServer); n.State != api.NodeRevoked {
		t.Errorf("the worker that left is %s, want Revoked", n.State)
	}
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology())) // which names it again
	if got := listed(lifecycletest.InstanceID, false); !slices.Contains(got, lifecycletest.WorkerServer) {
		t.Errorf("the worker is in the topology again, and the nodes are %v", got)
	}
}
