package completion_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An operation that waits for nothing starts and finishes in one transaction: two lines.
func TestALogReaderSeesOperationsStartAndFinish(t *testing.T) {
	w := lifecycletest.New(t)
	var log strings.Builder
	w.Lifecycle.Reconciler.Completion.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	for event, state := range map[string]api.OperationState{api.EventOperationStarted: api.Processing, api.EventOperationFinished: api.Completed} {
		if n := strings.Count(log.String(), "event="+event+" instance="+lifecycletest.InstanceID); n != 1 || !strings.Contains(log.String(), "state="+string(state)) {
			t.Errorf("%s %d times, state %s: %s", event, n, state, log.String())
		}
	}
}

func TestInstantiateEndsWhenEveryTargetHasAppliedItsDocument(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	start := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	if start.State != api.Completed || start.Phase != api.PhaseStart {
		t.Errorf("INSTANTIATE START is %+v, want COMPLETED", start)
	}
	end := api.OperationRequest{Operation: api.Instantiate, Topology: lifecycletest.FullTopology(), StackID: lifecycletest.StackOne}
	op := w.Post(end)
	if op.State != api.Processing || op.Phase != api.PhaseEnd || len(op.Targets) != 3 || op.Targets[0].Reason != api.ReasonNotEnrolled {
		t.Fatalf("INSTANTIATE END is %+v, want PROCESSING with three targets that have not enrolled", op)
	}
	changed, stop := w.Hub.Watch(op.ID)
	defer stop()
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.Must(w.Enroll(lifecycletest.StorageServer))

	old := w.Status(lifecycletest.StorageServer)
	old.AppliedDigest = "of an older document"
	w.Report(lifecycletest.StorageServer, old)
	if op = w.Operation(op.ID); op.State != api.Processing || op.Targets[0].Ready || !op.Targets[1].Ready {
		t.Errorf("with a stale digest the operation is %+v", op)
	}
	otherLife := w.Status(lifecycletest.StorageServer)
	otherLife.Epoch--
	w.Report(lifecycletest.StorageServer, otherLife)
	if op = w.Operation(op.ID); op.State != api.Processing || op.Targets[0].Reason != api.ReasonNotReported {
		t.Errorf("with a status of another epoch the operation is %+v", op)
	}
	notMounted := w.Status(lifecycletest.StorageServer)
	notMounted.AppliedDigest, notMounted.Conditions[0].Status = "", api.ConditionFalse
	*notMounted.Condition(api.ConditionVolumesMounted) = api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse,
		Reason: api.ReasonForeignData, Message: "ext4 of another owner"}
	w.Report(lifecycletest.StorageServer, notMounted)
	if op = w.Operation(op.ID); op.Targets[0].Reason != api.ReasonForeignData || !strings.Contains(op.Targets[0].Message, "ext4 of another owner") {
		t.Errorf("the target waits for %+v, want the condition's own words", op.Targets[0])
	}
	if got := w.Instance().State; got != api.NotInstantiated {
		t.Errorf("the instance is %s before the END has completed", got)
	}
	w.Converge(lifecycletest.StorageServer)
	if op = w.Operation(op.ID); op.State != api.Completed || op.FinishedAt == nil || !op.Targets[0].Ready {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", op)
	}
	if !lifecycletest.Woken(changed) {
		t.Error("who waits for the operation was not woken")
	}
	if got := w.Instance(); got.State != api.Instantiated || got.StackID != lifecycletest.StackOne {
		t.Errorf("the instance is %s of stack %q, want INSTANTIATED of stack-1", got.State, got.StackID)
	}
}

func TestTheDeadlineNamesWhatEachTargetWaitsFor(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 600
	op := w.Post(r)
	w.Converge(lifecycletest.MasterServer, lifecycletest.StorageServer)
	w.Clock.Advance(599 * time.Second)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Operation(op.ID); got.State != api.Processing {
		t.Fatalf("the operation is %s a second before its deadline", got.State)
	}
	w.Clock.Advance(time.Second)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	failed := w.Operation(op.ID)
	if failed.State != api.Failed {
		t.Fatalf("the operation is %+v after its deadline", failed)
	}
	w.WantRefused(failed.Error, api.ProblemDeadline, "10m0s", "worker ("+lifecycletest.WorkerServer+"): NotEnrolled")
	if strings.Contains(failed.Error.Detail, lifecycletest.MasterServer) {
		t.Errorf("the error names a node that was ready: %s", failed.Error.Detail)
	}

	// A retry finds nothing new and nothing changed, and still waits for the worker.
	retry := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	if retry.State != api.Processing {
		t.Fatalf("the retry is %+v, want PROCESSING", retry)
	}
	w.Converge(lifecycletest.WorkerServer)
	if got := w.Operation(retry.ID); got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	if got := w.Operation(op.ID); got.State != api.Failed {
		t.Errorf("the first attempt became %s", got.State)
	}
}

// Nothing of a cluster outlives it: neither its CA nor a secret of its members.
func TestAClusterEndsWithTheInstance(t *testing.T) {
	w := lifecycletest.Joined(t, lifecycletest.FullTopology())
	before := w.Document(lifecycletest.MasterServer).Cluster
	w.WantState(w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)), api.Completed)
	_, err := w.Lifecycle.Instances.ClusterAccess(w.Ctx, lifecycletest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound, "it has no master yet")
	again := lifecycletest.FullTopology()
	again.StackID = lifecycletest.StackTwo
	w.Put(lifecycletest.WithMembers(again))
	w.Must(w.Enroll(lifecycletest.MasterServer))
	w.ReportNotJoined(lifecycletest.MasterServer)
	if now := w.Document(lifecycletest.MasterServer).Cluster; !now.Initialize || now.CACertificateHash != "" || now.BootstrapToken == before.BootstrapToken || now.CertificateKey == before.CertificateKey {
		t.Errorf("the next cluster begins with %+v, the last one had %+v", now, before)
	}
}
