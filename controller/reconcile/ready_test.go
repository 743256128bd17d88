package reconcile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An agent says what it has to say once. A topology that forgot its server and
// names it again takes nothing of that away, as long as it is the same machine.
func TestAServerThatWasForgottenForAWhileIsStillReady(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Put(lcmtest.Spec(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(lcmtest.MasterServer, "master"))))
	if n := w.Node(lcmtest.WorkerServer); n.Ready {
		t.Fatalf("a server that no topology names is %+v", n)
	}
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	if n := w.Node(lcmtest.WorkerServer); !n.Ready {
		t.Errorf("the worker, which was ready and is the same machine, is %+v", n)
	}
	if op := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.FullTopology(), lcmtest.WorkerServer)); op.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED: no node has anything left to report", op)
	}
}

// Without its targets an operation would have nothing left to wait for.
func TestAPutTakesNoTargetFromTheOperationAtWork(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	for name, c := range map[string]struct {
		less  *api.Topology
		waits string
	}{
		"no server":       {lcmtest.TopologyOf(), lcmtest.StorageServer},
		"another":         {lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(1, 2), "storage"), lcmtest.Server(lcmtest.MasterServer, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker")), lcmtest.StorageServer},
		"all but the one": {lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(lcmtest.MasterServer, "master")), lcmtest.WorkerServer},
	} {
		_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.Spec(c.less))
		w.WantRefused(err, api.ProblemOperationInProgress, op.ID, c.waits)
		if got := w.Operation(op.ID); got.State != api.Processing || len(got.Targets) != 3 {
			t.Errorf("%s: INSTANTIATE END is %+v, want it to wait for its three targets", name, got)
		}
	}
	more := lcmtest.FullTopology()
	more.Servers = append(more.Servers, lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
	w.Put(lcmtest.Spec(more))
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	w.Put(lcmtest.Spec(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"))))
}
