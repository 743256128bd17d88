package lcm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An older agent knows nothing of a section, or an agent is wrong about itself.
func TestReadyTakesEveryConditionThatTheDocumentCallsFor(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lcmtest.MasterServer, lcmtest.WorkerServer)
	w.Must(w.Enroll(lcmtest.StorageServer))
	for _, called := range []string{api.ConditionVolumesMounted, api.ConditionExportsServed} {
		silent := w.Status(lcmtest.StorageServer)
		silent.Conditions = slices.DeleteFunc(silent.Conditions, func(c api.Condition) bool { return c.Type == called })
		w.Report(lcmtest.StorageServer, silent)
		target := w.Operation(op.ID).Targets[0]
		if target.Ready || target.Reason != api.ReasonNotReported || !strings.Contains(target.Message, called) {
			t.Errorf("with a Ready that reports no %s the target is %+v", called, target)
		}
		unsure := w.Status(lcmtest.StorageServer)
		unsure.Condition(called).Status = api.ConditionUnknown
		w.Report(lcmtest.StorageServer, unsure)
		if w.Node(lcmtest.StorageServer).Ready || w.Operation(op.ID).State != api.Processing {
			t.Errorf("with a Ready whose %s is Unknown the node is ready", called)
		}
	}
	w.Converge(lcmtest.StorageServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

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
