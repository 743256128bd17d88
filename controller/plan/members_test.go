package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The master that makes the cluster comes first, then the hash of its CA reaches the others,
// and the END is over once all are members.
func TestAnInstanceIsInstantiatedOnceItsServersAreMembers(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.WithMembers(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lcmtest.StorageServer)
	w.Must(w.Enroll(lcmtest.MasterServer))
	w.Must(w.Enroll(lcmtest.WorkerServer))
	w.ReportNotJoined(lcmtest.WorkerServer)
	if w.Document(lcmtest.MasterServer).Cluster.Initialize {
		t.Fatal("a master that may be a member is told to make the cluster")
	}
	w.ReportNotJoined(lcmtest.MasterServer)
	if c := w.Document(lcmtest.MasterServer); !c.Cluster.Initialize || c.Cluster.CACertificateHash != "" || c.ClusterMembers != nil || c.ClusterAccess != nil {
		t.Fatalf("before there is a cluster the master has %+v", c)
	}
	w.ReportNotJoined(lcmtest.MasterServer)
	target := func(id string) api.OperationTarget {
		targets := w.Operation(op.ID).Targets
		return targets[slices.IndexFunc(targets, func(target api.OperationTarget) bool { return target.NodeID == id })]
	}
	if got := target(lcmtest.MasterServer); got.Reason != api.ReasonNotJoined || !strings.HasPrefix(got.Message, api.ConditionClusterMember) {
		t.Errorf("the END waits for %+v, want the master's own condition", got)
	}

	w.Converge(lcmtest.MasterServer)
	if c := w.Document(lcmtest.MasterServer); c.Cluster.Initialize || len(c.ClusterMembers.Members) != 2 || c.ClusterAccess == nil {
		t.Fatalf("once it is a member the master has %+v", c)
	}
	if c := w.Document(lcmtest.WorkerServer).Cluster; c.CACertificateHash != "" {
		t.Fatalf("before the hash is known the worker has %+v", c)
	}
	w.ReportCluster(lcmtest.MasterServer, lcmtest.ClusterFacts())
	if c := w.Document(lcmtest.WorkerServer).Cluster; c.CACertificateHash != lcmtest.CAHash || c.Endpoint != "10.10.0.5:6443" {
		t.Fatalf("once the hash is known the worker has %+v", c)
	}
	w.ReportNotJoined(lcmtest.WorkerServer)
	w.Converge(lcmtest.MasterServer)
	if got := w.WantState(op, api.Processing); !target(lcmtest.MasterServer).Ready || target(lcmtest.WorkerServer).Ready {
		t.Errorf("the END waits for %+v, want the worker alone", got.Targets)
	}
	w.Converge(lcmtest.WorkerServer)
	w.WantState(op, api.Completed)
}

// A year later: one more worker joins with its own token, and no other document changes but
// that of the master that keeps the token valid.
func TestAWorkerJoinsAYearLater(t *testing.T) {
	second, added := lcmtest.UUID(2, 2), lcmtest.UUID(3, 2)
	topology := lcmtest.FullTopology()
	topology.Servers = append(topology.Servers, lcmtest.Server(second, "master"))
	w := lcmtest.Joined(t, topology)
	ids := []string{lcmtest.StorageServer, lcmtest.MasterServer, second, lcmtest.WorkerServer}
	w.Clock.Advance(365 * 24 * time.Hour)
	w.Restart()
	w.Must(w.LCM.Sweep(w.Ctx))
	for _, id := range ids { // their certificates were renewed meanwhile
		w.LCM.Nodes.Seen(id)
	}
	before := map[string]api.NodeConfig{}
	for _, id := range ids {
		before[id] = w.Document(id)
	}

	topology.Servers = append(topology.Servers, lcmtest.Server(added, "worker"))
	op := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, topology))
	w.Must(w.Enroll(added))
	token := w.Document(added).Cluster.BootstrapToken
	for _, id := range ids {
		was, is := before[id], w.Document(id)
		if id == lcmtest.MasterServer {
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
	if c := w.Document(added).Cluster; c.CACertificateHash != lcmtest.CAHash || c.Initialize || !slices.ContainsFunc(c.Masters, func(m api.ClusterServer) bool { return m.ServerID == second }) {
		t.Errorf("the new worker has %+v", c)
	}
	w.WantState(op, api.Processing)
	w.ReportNotJoined(added)
	w.Converge(lcmtest.MasterServer)
	w.WantState(op, api.Processing)
	w.Converge(added)
	w.WantState(op, api.Completed)
}

// The only master enrolls anew, or the state is restored from before the cluster was made: it is
// not told to make the cluster that it may have, and says first whether it has.
func TestAClusterThatTheControllerDoesNotKnowIsNotMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		forgets func(*lcmtest.World)
		hash    string
	}{
		"enrolled anew": {func(w *lcmtest.World) {
			w.ReportCluster(lcmtest.MasterServer, lcmtest.ClusterFacts())
			w.Must(w.Enrollment.Reenroll(w.Ctx, lcmtest.MasterServer))
			w.Must(w.Enroll(lcmtest.MasterServer))
		}, lcmtest.CAHash},
		"restored": {func(w *lcmtest.World) {
			w.Restore() // what it reported of its membership was not in the backup
			_, err := w.LCM.Instances.ConfirmInstance(w.Ctx, lcmtest.InstanceID)
			w.Must(err)
		}, ""},
	} {
		for _, member := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a member %v", name, member), func(t *testing.T) {
				w := lcmtest.New(t)
				w.Put(lcmtest.WithMembers(lcmtest.FullTopology()))
				w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
				w.Must(w.Enroll(lcmtest.MasterServer))
				w.ReportNotJoined(lcmtest.MasterServer)
				if !w.Document(lcmtest.MasterServer).Cluster.Initialize {
					t.Fatal("the only master is not told to make the cluster")
				}
				if c.hash != "" {
					w.Converge(lcmtest.MasterServer)
				}
				c.forgets(w)
				if now := w.Document(lcmtest.MasterServer).Cluster; now.Initialize || now.CACertificateHash != c.hash {
					t.Fatalf("before it has said anything it has %+v", now)
				}
				if member {
					w.Converge(lcmtest.MasterServer)
				} else {
					w.ReportNotJoined(lcmtest.MasterServer)
				}
				if now := w.Document(lcmtest.MasterServer).Cluster; now.Initialize == member {
					t.Errorf("once it has said so it has %+v", now)
				}
			})
		}
	}
}
