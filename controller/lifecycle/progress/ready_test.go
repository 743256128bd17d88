package progress_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An END that asks for more of a server whose agent is too old for it is not done without
// it, and one that asks for no more of the server does not wait for it.
func TestAnEndWaitsForWhatItAsksOfAnOldAgent(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Poll(lifecycletest.StorageServer, lifecycletest.AgentWithout("v1", api.SectionStorage))
	w.Converge(lifecycletest.StorageServer)
	added := lifecycletest.UUID(3, 2)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(added, "worker"))
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	if targets := w.Operation(op.ID).Targets; len(targets) != 1 || targets[0].NodeID != added {
		t.Fatalf("SCALE_OUT END waits for %+v, want the new worker", targets)
	}
	w.Converge(added)
	if got := w.Operation(op.ID); got.State != api.Completed || !warns(got, lifecycletest.StorageServer, api.ReasonAgentTooOld) {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED with a warning of the storage server", got)
	}
	grown.Volumes[0].SizeBytes = 2 << 30
	op = w.Post(lifecycletest.Heal(api.PhaseEnd, grown, lifecycletest.WorkerServer))
	if got := w.Operation(op.ID); got.State != api.Processing || !slices.ContainsFunc(got.Targets, func(t api.OperationTarget) bool {
		return t.NodeID == lifecycletest.StorageServer && t.Reason == api.ReasonAgentTooOld
	}) {
		t.Errorf("HEAL END is %+v, want it to wait for the storage server", got)
	}
}

func warns(op api.Operation, parts ...string) bool {
	return slices.ContainsFunc(op.Warnings, func(f api.Fault) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(f.Message, part) })
	})
}

// A newer agent reports a condition that this controller does not know, and applies its document.
func TestAConditionThatNoSectionCallsForIsNoPartOfReady(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	s := w.Status(lifecycletest.WorkerServer)
	s.Conditions = append(s.Conditions, api.Condition{Type: "TimeSynced", Status: api.ConditionFalse, Reason: "NoServerAnswers",
		ObservedGeneration: s.ObservedGeneration, LastTransitionTime: w.Clock.Now()})
	w.Report(lifecycletest.WorkerServer, s)
	if n := w.Node(lifecycletest.WorkerServer); !n.Ready || n.Status.Condition("TimeSynced") == nil {
		t.Errorf("the node is %+v, its status %+v; want Ready, and what it said kept", n, n.Status)
	}
}

func TestHealInPlaceWaitsForTheMachineThatEnrolledAnew(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Must(w.Enrollment.Reenroll(w.Ctx, lifecycletest.WorkerServer))
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), lifecycletest.WorkerServer))
	if op.State != api.Processing || op.Targets[0].Reason != api.ReasonNotEnrolled {
		t.Fatalf("HEAL END is %+v, want PROCESSING until the rebuilt worker enrolls", op)
	}
	w.Clock.Advance(time.Minute)
	w.Must(w.Enroll(lifecycletest.WorkerServer))
	if got := w.Operation(op.ID); got.State != api.Processing || got.Targets[0].Reason != api.ReasonNotReported {
		t.Fatalf("what the old machine had reported counts for the new one: %+v", got)
	}
	w.Report(lifecycletest.WorkerServer, w.Status(lifecycletest.WorkerServer))
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
}

func TestARestoredBackupCountsNoOldSuccess(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
	w.Must(w.Enroll(lifecycletest.UUID(1, 2)))
	before := w.Status(lifecycletest.UUID(1, 2))
	w.Restore()
	_, err := w.Lifecycle.Instances.ConfirmInstance(w.Ctx, lifecycletest.InstanceID)
	w.Must(err)
	w.Report(lifecycletest.UUID(1, 2), before)
	if got := w.Operation(op.ID); got.State != api.Processing || got.Targets[0].Ready || len(got.Targets) != 1 {
		t.Errorf("with a status of the epoch before, HEAL END is %+v", got)
	}
	if n := w.Node(lifecycletest.MasterServer); n.Ready || n.Generation != 2 {
		t.Errorf("the master is ready (%v) at generation %d, want not, at 2", n.Ready, n.Generation)
	}
	w.Converge(lifecycletest.UUID(1, 2))
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
}

func TestWithheldSectionsHoldTheOperationUp(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	unattached := lifecycletest.FullTopology()
	unattached.Volumes, unattached.StackStatus = nil, "" // a complete one would fail at once
	unattached.Servers[0].VolumeIds = nil
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.Topology = unattached
	op := w.Post(r)
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	op = w.Operation(op.ID)
	if op.State != api.Processing || len(op.Withheld) != 1 || op.Targets[0].Reason != api.ReasonVolumeUnresolved {
		t.Fatalf("the operation is %+v, want PROCESSING while storage is withheld", op)
	}
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology())) // the topology that was wrong is given once more
	if op = w.Operation(op.ID); op.State != api.Processing {
		t.Errorf("the operation is %s before the new document is applied", op.State)
	}
	w.Converge(lifecycletest.StorageServer)
	if op = w.Operation(op.ID); op.State != api.Completed {
		t.Errorf("the operation is %+v, want COMPLETED", op)
	}
}

// An older agent knows nothing of a section, or an agent is wrong about itself.
func TestReadyTakesEveryConditionThatTheDocumentCallsFor(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.Must(w.Enroll(lifecycletest.StorageServer))
	for _, called := range []string{api.ConditionVolumesMounted, api.ConditionExportsServed} {
		silent := w.Status(lifecycletest.StorageServer)
		silent.Conditions = slices.DeleteFunc(silent.Conditions, func(c api.Condition) bool { return c.Type == called })
		w.Report(lifecycletest.StorageServer, silent)
		target := w.Operation(op.ID).Targets[0]
		if target.Ready || target.Reason != api.ReasonNotReported || !strings.Contains(target.Message, called) {
			t.Errorf("with a Ready that reports no %s the target is %+v", called, target)
		}
		unsure := w.Status(lifecycletest.StorageServer)
		unsure.Condition(called).Status = api.ConditionUnknown
		w.Report(lifecycletest.StorageServer, unsure)
		if w.Node(lifecycletest.StorageServer).Ready || w.Operation(op.ID).State != api.Processing {
			t.Errorf("with a Ready whose %s is Unknown the node is ready", called)
		}
	}
	w.Converge(lifecycletest.StorageServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}
