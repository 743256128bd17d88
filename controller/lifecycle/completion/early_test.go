package completion_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAnEndWhoseTargetsHaveFailedFinallyFailsAfterTheGrace(t *testing.T) {
	w, op := lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Wait(lifecycletest.Grace - time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "a second before the grace is over")
	w.Wait(time.Second)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after the grace")
	failed := w.Operation(op.ID)
	w.WantRefused(failed.Error, api.ProblemTargetsFailed, "storage ("+lifecycletest.StorageServer+"): ForeignData, VolumesMounted: found xfs", "3m0s", "post the operation again")
	if i := slices.IndexFunc(failed.Targets, func(target api.OperationTarget) bool { return target.Final }); i != 0 || failed.Targets[0].NodeID != lifecycletest.StorageServer {
		t.Errorf("the targets are %+v, want the storage server first, and it alone final", failed.Targets)
	}

	// A retry waits for what failed, and completes once it is mended.
	retry := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantOutcome(retry, lifecycletest.Processing, "posted again")
	w.Converge(lifecycletest.StorageServer)
	w.WantOutcome(retry, lifecycletest.Completed, "once the disk is mended")
}

// While nothing changes, nothing is written: neither for what nodes repeat, nor for the time
// that passes, nor when the instance is planned again for another reason.
func TestAnEndThatIsStuckWritesNothing(t *testing.T) {
	w, op := lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Wait(time.Second)
	for range 3 {
		if w.Writes(func() {
			w.ReportFailed(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			w.Wait(time.Second)
			w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, lifecycletest.InstanceID))
		}) {
			t.Error("the same report, a second or a plan without a change was written")
		}
	}
	w.WantOutcome(op, lifecycletest.Processing, "meanwhile")
}

func TestAChangeBeginsTheGraceAnew(t *testing.T) {
	w, op := lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Wait(lifecycletest.Grace - time.Second)
	w.ReportFailed(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found ext4")
	w.Wait(lifecycletest.Grace - time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "a second before the grace since the change is over")
	w.ReportRetried(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonUnreadable)
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(op, lifecycletest.Processing, "while the agent tries again")
	w.ReportFailed(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found ext4")
	w.Wait(lifecycletest.Grace - time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "a second before the grace is over")
	w.Wait(time.Second)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after the grace")
}

// The time is in the record. Only what nodes have mended while the controller was down has
// the time to arrive.
func TestTheGraceSurvivesARestart(t *testing.T) {
	w, op := lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Wait(lifecycletest.Grace - 2*api.LongestRetry)
	w.Restart()
	w.Wait(2*api.LongestRetry - time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "a second before the grace is over")
	w.Wait(time.Second)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after the grace")

	w, op = lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Clock.Advance(op.Deadline.Sub(w.Clock.Now()) / 2) // it is down
	w.Restart()
	w.Wait(api.LongestRetry - time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "before nodes had the time to report")
	w.Converge(lifecycletest.StorageServer)
	w.WantOutcome(op, lifecycletest.Completed, "once the node reports that it is mended")
}

// A setting that is changed counts from the next start on, also for an END in progress.
func TestTheGraceIsASetting(t *testing.T) {
	w, op := lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Config.FailureGraceSeconds = 600
	w.Restart()
	w.Wait(599 * time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "a second before the longer grace is over")
	w.Wait(time.Second)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after it")
}
