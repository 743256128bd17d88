package lcm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// An older agent knows nothing of a section, or an agent is wrong about itself.
func TestReadyTakesEveryConditionThatTheDocumentCallsFor(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(masterServer, workerServer)
	w.must(w.enroll(storageServer))
	for _, called := range []string{api.ConditionVolumesMounted, api.ConditionExportsServed} {
		silent := w.status(storageServer)
		silent.Conditions = slices.DeleteFunc(silent.Conditions, func(c api.Condition) bool { return c.Type == called })
		w.report(storageServer, silent)
		target := w.operation(op.ID).Targets[0]
		if target.Ready || target.Reason != api.ReasonNotReported || !strings.Contains(target.Message, called) {
			t.Errorf("with a Ready that reports no %s the target is %+v", called, target)
		}
		unsure := w.status(storageServer)
		unsure.Condition(called).Status = api.ConditionUnknown
		w.report(storageServer, unsure)
		if w.node(storageServer).Ready || w.operation(op.ID).State != api.Processing {
			t.Errorf("with a Ready whose %s is Unknown the node is ready", called)
		}
	}
	w.converge(storageServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

// An agent says what it has to say once. A topology that forgot its server and
// names it again takes nothing of that away, as long as it is the same machine.
func TestAServerThatWasForgottenForAWhileIsStillReady(t *testing.T) {
	w := instantiated(t)
	w.put(spec(topologyOf(server(storageServer, "storage"), server(masterServer, "master"))))
	if n := w.node(workerServer); n.Ready {
		t.Fatalf("a server that no topology names is %+v", n)
	}
	w.put(spec(full()))
	if n := w.node(workerServer); !n.Ready {
		t.Errorf("the worker, which was ready and is the same machine, is %+v", n)
	}
	if op := w.post(heal(api.PhaseEnd, full(), workerServer)); op.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED: no node has anything left to report", op)
	}
}

// Without its targets an operation would have nothing left to wait for.
func TestAPutTakesNoTargetFromTheOperationAtWork(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	for name, c := range map[string]struct {
		less  *api.Topology
		waits string
	}{
		"no server":       {topologyOf(), storageServer},
		"another":         {topologyOf(server(uuid(1, 2), "storage"), server(masterServer, "master"), server(workerServer, "worker")), storageServer},
		"all but the one": {topologyOf(server(storageServer, "storage"), server(masterServer, "master")), workerServer},
	} {
		_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, spec(c.less))
		w.refused(err, api.ProblemOperationInProgress, op.ID, c.waits)
		if got := w.operation(op.ID); got.State != api.Processing || len(got.Targets) != 3 {
			t.Errorf("%s: INSTANTIATE END is %+v, want it to wait for its three targets", name, got)
		}
	}
	more := full()
	more.Servers = append(more.Servers, server(uuid(3, 2), "worker"))
	w.put(spec(more))
	w.converge(storageServer, masterServer, workerServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	w.put(spec(topologyOf(server(storageServer, "storage"))))
}
