package progress_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAStartWhoseMembersCannotLeaveFailsAtOnce(t *testing.T) {
	for _, reason := range []api.Reason{api.ReasonUnmanagedPods, api.ReasonQuorumAtRisk} {
		t.Run(reason, func(t *testing.T) {
			w := lifecycletest.Clustered(t)
			version := w.Instance().DesiredVersion
			start := w.Post(lifecycletest.ScaleInStart(lifecycletest.SecondWorker))
			w.ReportStaying(reason)
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemMembersStay, reason+": Pod shop/web-0", "the previous desired state is in force again")
			w.WantAskedToLeave(lifecycletest.MasterServer)
			if now := w.Instance().DesiredVersion; now != version {
				t.Errorf("version %d is in force, want %d", now, version)
			}
		})
	}
}

func TestAVolumeInUseFailsTheHealAtOnce(t *testing.T) {
	w := lifecycletest.Registered(t)
	version := w.Instance().DesiredVersion
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	const message = "none is deleted: PersistentVolume pv1 is Bound, by claim default/data"
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonInUse, message)
	got := w.Operation(start.ID)
	if got.State != api.Failed {
		t.Fatalf("HEAL START is %+v, want FAILED", got)
	}
	w.WantRefused(got.Error, api.ProblemVolumesInUse, "are in use (409): "+message, "the previous desired state is in force again")
	if s := w.Section(lifecycletest.MasterServer); w.Instance().DesiredVersion != version || s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("version %d is in force, want %d; the section is %+v", w.Instance().DesiredVersion, version, s)
	}
}

// What was said of a generation that is past says nothing of the present one, though the
// content be the same: in between the volumes were made again.
func TestAnAnswerToAnEarlierStartIsNoneToThisOne(t *testing.T) {
	w := lifecycletest.Registered(t)
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	early := w.Status(lifecycletest.MasterServer)
	early.Condition(api.ConditionPersistentVolumesRegistered).Reason = api.ReasonAbsent
	w.Report(lifecycletest.MasterServer, early)
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer)
	ready := w.Status(lifecycletest.MasterServer)
	second := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	w.Report(lifecycletest.MasterServer, early)
	w.WantState(second, api.Processing)
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonInUse, "pv1 is bound")
	w.WantState(second, api.Failed)
	w.Report(lifecycletest.MasterServer, ready)
	if n := w.Node(lifecycletest.MasterServer); n.Ready {
		t.Errorf("%+v is ready by what it was before the START", n)
	}
	w.Converge(lifecycletest.MasterServer)
	if n := w.Node(lifecycletest.MasterServer); !n.Ready {
		t.Errorf("%+v is not ready", n)
	}
}

// The first report of a document may bring conditions that were found for the one before.
func TestAConditionOfTheDocumentBeforeIsNoAnswer(t *testing.T) {
	w := lifecycletest.Registered(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	s := w.Status(lifecycletest.MasterServer)
	c := s.Condition(api.ConditionPersistentVolumesRegistered)
	c.Reason, c.ObservedGeneration = api.ReasonAbsent, s.ObservedGeneration-1
	w.Report(lifecycletest.MasterServer, s)
	w.WantState(start, api.Processing)
	c.ObservedGeneration++
	w.Report(lifecycletest.MasterServer, s)
	w.WantState(start, api.Completed)
}
