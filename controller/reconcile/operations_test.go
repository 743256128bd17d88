package reconcile_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An operation that waits for nothing starts and finishes in one transaction: two lines.
func TestALogReaderSeesOperationsStartAndFinish(t *testing.T) {
	w := lcmtest.New(t)
	var log strings.Builder
	w.LCM.Reconciler.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.Put(lcmtest.Spec(nil))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	for event, state := range map[string]api.OperationState{api.EventOperationStarted: api.Processing, api.EventOperationFinished: api.Completed} {
		if n := strings.Count(log.String(), "event="+event+" instance="+lcmtest.InstanceID); n != 1 || !strings.Contains(log.String(), "state="+string(state)) {
			t.Errorf("%s %d times, state %s: %s", event, n, state, log.String())
		}
	}
}

func TestInstantiateEndsWhenEveryTargetHasAppliedItsDocument(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(nil))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	start := w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	if start.State != api.Completed || start.Phase != api.PhaseStart {
		t.Errorf("INSTANTIATE START is %+v, want COMPLETED", start)
	}
	end := api.OperationRequest{Operation: api.Instantiate, Topology: lcmtest.FullTopology(), StackID: lcmtest.StackOne}
	op := w.Post(end)
	if op.State != api.Processing || op.Phase != api.PhaseEnd || len(op.Targets) != 3 || op.Targets[0].Reason != api.ReasonNotEnrolled {
		t.Fatalf("INSTANTIATE END is %+v, want PROCESSING with three targets that have not enrolled", op)
	}
	changed, stop := w.Hub.Watch(op.ID)
	defer stop()
	w.Converge(lcmtest.MasterServer, lcmtest.WorkerServer)
	w.Must(w.Enroll(lcmtest.StorageServer))

	old := w.Status(lcmtest.StorageServer)
	old.AppliedDigest = "of an older document"
	w.Report(lcmtest.StorageServer, old)
	if op = w.Operation(op.ID); op.State != api.Processing || op.Targets[0].Ready || !op.Targets[1].Ready {
		t.Errorf("with a stale digest the operation is %+v", op)
	}
	otherLife := w.Status(lcmtest.StorageServer)
	otherLife.Epoch--
	w.Report(lcmtest.StorageServer, otherLife)
	if op = w.Operation(op.ID); op.State != api.Processing || op.Targets[0].Reason != api.ReasonNotReported {
		t.Errorf("with a status of another epoch the operation is %+v", op)
	}
	notMounted := w.Status(lcmtest.StorageServer)
	notMounted.AppliedDigest, notMounted.Conditions[0].Status = "", api.ConditionFalse
	*notMounted.Condition(api.ConditionVolumesMounted) = api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse,
		Reason: api.ReasonForeignData, Message: "ext4 of another owner"}
	w.Report(lcmtest.StorageServer, notMounted)
	if op = w.Operation(op.ID); op.Targets[0].Reason != api.ReasonForeignData || !strings.Contains(op.Targets[0].Message, "ext4 of another owner") {
		t.Errorf("the target waits for %+v, want the condition's own words", op.Targets[0])
	}
	if got := w.Instance().State; got != api.NotInstantiated {
		t.Errorf("the instance is %s before the END has completed", got)
	}
	w.Converge(lcmtest.StorageServer)
	if op = w.Operation(op.ID); op.State != api.Completed || op.FinishedAt == nil || !op.Targets[0].Ready {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", op)
	}
	if !lcmtest.Woken(changed) {
		t.Error("who waits for the operation was not woken")
	}
	if got := w.Instance(); got.State != api.Instantiated || got.StackID != lcmtest.StackOne {
		t.Errorf("the instance is %s of stack %q, want INSTANTIATED of stack-1", got.State, got.StackID)
	}
}

func TestTheDeadlineNamesWhatEachTargetWaitsFor(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 600
	op := w.Post(r)
	w.Converge(lcmtest.MasterServer, lcmtest.StorageServer)
	w.Clock.Advance(599 * time.Second)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Operation(op.ID); got.State != api.Processing {
		t.Fatalf("the operation is %s a second before its deadline", got.State)
	}
	w.Clock.Advance(time.Second)
	w.Must(w.LCM.Sweep(w.Ctx))
	failed := w.Operation(op.ID)
	if failed.State != api.Failed {
		t.Fatalf("the operation is %+v after its deadline", failed)
	}
	w.WantRefused(failed.Error, api.ProblemDeadline, "10m0s", "worker ("+lcmtest.WorkerServer+"): NotEnrolled")
	if strings.Contains(failed.Error.Detail, lcmtest.MasterServer) {
		t.Errorf("the error names a node that was ready: %s", failed.Error.Detail)
	}

	// A retry finds nothing new and nothing changed, and still waits for the worker.
	retry := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	if retry.State != api.Processing {
		t.Fatalf("the retry is %+v, want PROCESSING", retry)
	}
	w.Converge(lcmtest.WorkerServer)
	if got := w.Operation(retry.ID); got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	if got := w.Operation(op.ID); got.State != api.Failed {
		t.Errorf("the first attempt became %s", got.State)
	}
}
