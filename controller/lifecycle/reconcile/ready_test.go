package reconcile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An agent says what it has to say once. A topology that forgot its server and
// names it again takes nothing of that away, as long as it is the same machine.
func TestAServerThatWasForgottenForAWhileIsStillReady(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Put(lifecycletest.Spec(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"))))
	if n := w.Node(lifecycletest.WorkerServer); n.Ready {
		t.Fatalf("a server that no topology names is %+v", n)
	}
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	if n := w.Node(lifecycletest.WorkerServer); !n.Ready {
		t.Errorf("the worker, which was ready and is the same machine, is %+v", n)
	}
	if op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), lifecycletest.WorkerServer)); op.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED: no node has anything left to report", op)
	}
}

// Without its targets an operation would have nothing left to wait for.
func TestAPutTakesNoTargetFromTheOperationAtWork(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	for name, c := range map[string]struct {
		less  *api.Topology
		waits string
	}{
		"no server":       {lifecycletest.TopologyOf(), lifecycletest.StorageServer},
		"another":         {lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker")), lifecycletest.StorageServer},
		"all but the one": {lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master")), lifecycletest.WorkerServer},
	} {
		_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.Spec(c.less))
		w.WantRefused(err, api.ProblemOperationInProgress, op.ID, c.waits)
		if got := w.Operation(op.ID); got.State != api.Processing || len(got.Targets) != 3 {
			t.Errorf("%s: INSTANTIATE END is %+v, want it to wait for its three targets", name, got)
		}
	}
	more := lifecycletest.FullTopology()
	more.Servers = append(more.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	w.Put(lifecycletest.Spec(more))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	w.Put(lifecycletest.Spec(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"))))
}
