package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The master that makes the cluster comes first, then the hash of its CA reaches the others,
// and the END is over once all are members.
func TestAnInstanceIsInstantiatedOnceItsServersAreMembers(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithMembers(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer)
	w.Must(w.Enroll(lifecycletest.MasterServer))
	w.Must(w.Enroll(lifecycletest.WorkerServer))
	w.ReportNotJoined(lifecycletest.WorkerServer)
	if w.Document(lifecycletest.MasterServer).Cluster.Initialize {
		t.Fatal("a master that may be a member is told to make the cluster")
	}
	w.ReportNotJoined(lifecycletest.MasterServer)
	if c := w.Document(lifecycletest.MasterServer); !c.Cluster.Initialize || c.Cluster.CACertificateHash != "" || c.ClusterMembers != nil || c.ClusterAccess != nil {
		t.Fatalf("before there is a cluster the master has %+v", c)
	}
	w.ReportNotJoined(lifecycletest.MasterServer)
	target := func(id string) api.OperationTarget {
		targets := w.Operation(op.ID).Targets
		return targets[slices.IndexFunc(targets, func(target api.OperationTarget) bool { return target.NodeID == id })]
	}
	if got := target(lifecycletest.MasterServer); got.Reason != api.ReasonNotJoined || !strings.HasPrefix(got.Message, api.ConditionClusterMember) {
		t.Errorf("the END waits for %+v, want the master's own condition", got)
	}

	w.Converge(lifecycletest.MasterServer)
	if c := w.Document(lifecycletest.MasterServer); c.Cluster.Initialize || len(c.ClusterMembers.Members) != 2 || c.ClusterAccess == nil {
		t.Fatalf("once it is a member the master has %+v", c)
	}
	if c := w.Document(lifecycletest.WorkerServer).Cluster; c.CACertificateHash != "" {
		t.Fatalf("before the hash is known the worker has %+v", c)
	}
	w.ReportCluster(lifecycletest.MasterServer, lifecycletest.ClusterFacts())
	if c := w.Document(lifecycletest.WorkerServer).Cluster; c.CACertificateHash != lifecycletest.CAHash || c.Endpoint != "10.10.0.5:6443" {
		t.Fatalf("once the hash is known the worker has %+v", c)
	}
	w.ReportNotJoined(lifecycletest.WorkerServer)
	w.Converge(lifecycletest.MasterServer)
	if got := w.WantState(op, api.Processing); !target(lifecycletest.MasterServer).Ready || target(lifecycletest.WorkerServer).Ready {
		t.Errorf("the END waits for %+v, want the worker alone", got.Targets)
	}
	w.Converge(lifecycletest.WorkerServer)
	w.WantState(op, api.Completed)
}

// A year later: one more worker joins with its own token, and no other document changes but
// that of the master that keeps the token valid.
func TestAWorkerJoinsAYearLater(t *testing.T) {
	second, added := lifecycletest.UUID(2, 2), lifecycletest.UUID(3, 2)
	topology := lifecycletest.FullTopology()
	topology.Servers = append(topology.Servers, lifecycletest.Server(second, "master"))
	w := lifecycletest.Joined(t, topology)
	ids := []string{lifecycletest.StorageServer, lifecycletest.MasterServer, second, lifecycletest.WorkerServer}
	w.Clock.Advance(365 * 24 * time.Hour)
	w.Restart()
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	for _, id := range ids { // their certificates were renewed meanwhile
		w.Lifecycle.Nodes.Seen(id)
	}
	before := map[string]api.NodeConfig{}
	for _, id := range ids {
		before[id] = w.Document(id)
	}

	topology.Servers = append(topology.Servers, lifecycletest.Server(added, "worker"))
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, topology))
	w.Must(w.Enroll(added))
	token := w.Document(added).Cluster.BootstrapToken
	for _, id := range ids {
		was, is := before[id], w.Document(id)
		if id == lifecycletest.MasterServer {
			i := slices.IndexFunc(is.ClusterMembers.Members, func(m api.ClusterMember) bool { return m.ServerID == added })
			if i < 0 || is.ClusterMembers.Members[i].BootstrapToken != token {
				t.Fatalf("the master keeps %+v, the new worker has %q", is.ClusterMembers.Members, token)
			}
			is.ClusterMembers.Members = slices.Delete(slices.Clone(is.ClusterMembers.Members), i, i+1)
			is.Generation = was.Generation
		}
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("the document of %s (-before +after):\n%s", id, diff)
		}
	}
	if c := w.Document(added).Cluster; c.CACertificateHash != lifecycletest.CAHash || c.Initialize || !slices.ContainsFunc(c.Masters, func(m api.ClusterServer) bool { return m.ServerID == second }) {
		t.Errorf("the new worker has %+v", c)
	}
	w.WantState(op, api.Processing)
	w.ReportNotJoined(added)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(op, api.Processing)
	w.Converge(added)
	w.WantState(op, api.Completed)
}

// The only master enrolls anew, or the state is restored from before the cluster was made: it is
// not told to make the cluster that it may have, and says first whether it has.
func TestAClusterThatTheControllerDoesNotKnowIsNotMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		forgets func(*lifecycletest.World)
		hash    string
	}{
		"enrolled anew": {func(w *lifecycletest.World) {
			w.ReportCluster(lifecycletest.MasterServer, lifecycletest.ClusterFacts())
			w.Must(w.Enrollment.Reenroll(w.Ctx, lifecycletest.MasterServer))
			w.Must(w.Enroll(lifecycletest.MasterServer))
		}, lifecycletest.CAHash},
		"restored": {func(w *lifecycletest.World) {
			w.Restore() // what it reported of its membership was not in the backup
			_, err := w.Lifecycle.Instances.ConfirmInstance(w.Ctx, lifecycletest.InstanceID)
			w.Must(err)
		}, ""},
	} {
		for _, member := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a member %v", name, member), func(t *testing.T) {
				w := lifecycletest.New(t)
				w.Put(lifecycletest.WithMembers(lifecycletest.FullTopology()))
				w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
				w.Must(w.Enroll(lifecycletest.MasterServer))
				w.ReportNotJoined(lifecycletest.MasterServer)
				if !w.Document(lifecycletest.MasterServer).Cluster.Initialize {
					t.Fatal("the only master is not told to make the cluster")
				}
				if c.hash != "" {
					w.Converge(lifecycletest.MasterServer)
				}
				c.forgets(w)
				if now := w.Document(lifecycletest.MasterServer).Cluster; now.Initialize || now.CACertificateHash != c.hash {
					t.Fatalf("before it has said anything it has %+v", now)
				}
				if member {
					w.Converge(lifecycletest.MasterServer)
				} else {
					w.ReportNotJoined(lifecycletest.MasterServer)
				}
				if now := w.Document(lifecycletest.MasterServer).Cluster; now.Initialize == member {
					t.Errorf("once it has said so it has %+v", now)
				}
			})
		}
	}
}
