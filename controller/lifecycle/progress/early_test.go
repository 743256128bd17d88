package progress_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What waiting may mend, by the agent's own word or by the reason, ends at the deadline.
func TestAnEndThatWaitingMayCompleteLastsUntilItsDeadline(t *testing.T) {
	for name, c := range map[string]func(*lifecycletest.World){
		"a size that differs": func(w *lifecycletest.World) {
			w.ReportFailed(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonSizeMismatch, "2 GiB")
		},
		"a volume on two servers": func(w *lifecycletest.World) {
			w.ReportFailed(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonMultiAttached, "detach it")
		},
		"what the agent tries again": func(w *lifecycletest.World) {
			w.ReportRetried(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData)
		},
		"another node is converging": func(w *lifecycletest.World) {
			w.ReportRetried(lifecycletest.WorkerServer, api.ConditionNFSClientInstalled, api.ReasonPackageManagerBusy)
		},
		"another node is a new machine": func(w *lifecycletest.World) {
			w.Must(w.Enrollment.Reenroll(w.Ctx, lifecycletest.WorkerServer))
			w.Must(w.Enroll(lifecycletest.WorkerServer))
		},
		"a new document": func(w *lifecycletest.World) {
			s := lifecycletest.Spec(lifecycletest.FullTopology())
			s.AdditionalParams = lifecycletest.Parameters("10.20.0.0/24")
			w.Put(s)
		},
		"a report about the document before": func(w *lifecycletest.World) {
			old := w.Lacking(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			old.LastFailedCondition, old.LastFailedGeneration = api.ConditionVolumesMounted, old.ObservedGeneration-1
			w.Report(lifecycletest.StorageServer, old)
		},
		"a condition of the document before": func(w *lifecycletest.World) {
			old := w.Lacking(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			old.LastFailedCondition, old.LastFailedGeneration = api.ConditionVolumesMounted, old.ObservedGeneration
			old.Condition(api.ConditionVolumesMounted).ObservedGeneration--
			w.Report(lifecycletest.StorageServer, old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, op := lifecycletest.ForeignDisk(t, lifecycletest.Spec(lifecycletest.FullTopology()))
			w.Wait(lifecycletest.Grace / 2)
			c(w)
			for w.Clock.Now().Before(op.Deadline.Add(-time.Minute)) {
				w.Wait(time.Minute)
				w.WantOutcome(op, lifecycletest.Processing, "before its deadline")
			}
			w.Wait(time.Minute)
			w.WantOutcome(op, "FAILED deadline-exceeded", "at its deadline")
		})
	}
}

// A master that lacks nothing but what the storage server is to serve fails with it, and
// the cause is named first, wherever the nodes stand in the list.
func TestANodeThatWaitsOnlyForAFailedOneDoesNotKeepTheEndWaiting(t *testing.T) {
	w := lifecycletest.New(t)
	last := lifecycletest.UUID(8, 1) // the storage server, which comes after the master in every list
	w.Put(lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.Server(last, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.Must(w.Enroll(last))
	w.ReportFailed(last, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	master := targetOf(w.Operation(op.ID), lifecycletest.MasterServer)
	if master.Reason != api.ReasonWaitingForExports || master.WaitsFor != last || master.Final {
		t.Fatalf("the master is %+v, want one that waits for the storage server", master)
	}
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after the grace")
	inOrder(t, w.Operation(op.ID), "ForeignData", "WaitingForExports")
	want := []string{last, lifecycletest.WorkerServer, lifecycletest.MasterServer}
	if got := completion.TargetIDs(w.Operation(op.ID).Targets); !slices.Equal(got, want) {
		t.Errorf("the targets are %v, want the storage server first and the master, which only waits, last: %v", got, want)
	}
}

// A master that is not there yet has failed by itself, whatever it would wait for then.
func TestWaitingForExportsHidesNoCause(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithVolumes(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 3600
	op := w.Post(r)
	if got := targetOf(w.Operation(op.ID), lifecycletest.MasterServer); got.Reason != api.ReasonNotEnrolled {
		t.Errorf("a master that has not enrolled is %+v", got)
	}
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	if got := targetOf(w.Operation(op.ID), lifecycletest.MasterServer); got.Reason != api.ReasonWaitingForExports {
		t.Errorf("a master that lacks nothing else is %+v", got)
	}
	w.Wait(time.Hour)
	w.WantOutcome(op, "FAILED deadline-exceeded", "while the storage server has not enrolled")
	inOrder(t, w.Operation(op.ID), "storage ("+lifecycletest.StorageServer+"): NotEnrolled", "WaitingForExports")

	again := w.Post(r)
	w.Must(w.Enroll(lifecycletest.StorageServer))
	w.ReportRetried(lifecycletest.MasterServer, api.ConditionNFSClientInstalled, api.ReasonPackageManagerBusy)
	w.ReportFailed(lifecycletest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(again, lifecycletest.Processing, "while the master lacks something of its own")
	w.Report(lifecycletest.MasterServer, w.Status(lifecycletest.MasterServer))
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(again, lifecycletest.TargetsFailed, "once it only waits")
}

// The node that has failed need not be a target: an operation on the master alone waits for
// it as well.
func TestTheCauseMayBeNoTarget(t *testing.T) {
	w := lifecycletest.New(t)
	two := lifecycletest.TopologyOf(append(lifecycletest.FullTopology().Servers, lifecycletest.Server(lifecycletest.UUID(2, 2), "master"))...)
	w.Put(lifecycletest.WithVolumes(two))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	whole := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.UUID(2, 2), lifecycletest.WorkerServer)
	w.Converge(lifecycletest.MasterServer)
	w.WantOutcome(whole, lifecycletest.Completed, "with all nodes ready")
	changed := lifecycletest.WithVolumes(two)
	changed.AdditionalParams = lifecycletest.VolumesParameters("10.20.0.0/24")
	w.Put(changed)
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, two, lifecycletest.MasterServer))
	if want := []string{lifecycletest.MasterServer}; !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Fatalf("the targets are %+v, want the master alone", op.Targets)
	}
	w.Report(lifecycletest.MasterServer, w.Status(lifecycletest.MasterServer))
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(op, lifecycletest.Processing, "while the storage server has not failed")
	w.ReportFailed(lifecycletest.StorageServer, api.ConditionExportsServed, api.ReasonExportRefused, "a symbolic link")
	w.Wait(lifecycletest.Grace - time.Second)
	w.WantOutcome(op, lifecycletest.Processing, "a second before the grace is over")
	w.Wait(time.Second)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after it")
	inOrder(t, w.Operation(op.ID), "storage ("+lifecycletest.StorageServer+"): ExportRefused", "WaitingForExports")
}

// Whatever waits for no report has failed finally too: nothing observes the stack again.
func TestAnUnresolvedConnectionPointIsFinal(t *testing.T) {
	w := lifecycletest.New(t)
	s := lifecycletest.WithVolumes(lifecycletest.FullTopology())
	s.AdditionalParams = []byte(strings.Replace(string(s.AdditionalParams), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "nfs_CP"`, 1))
	w.Put(s)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after the grace")
	inOrder(t, w.Operation(op.ID), "ConnectionPointUnresolved", `nfs_server_cp "nfs_CP"`)
}

func targetOf(op api.Operation, id string) api.OperationTarget {
	i := slices.IndexFunc(op.Targets, func(target api.OperationTarget) bool { return target.NodeID == id })
	if i < 0 {
		return api.OperationTarget{}
	}
	return op.Targets[i]
}

// inOrder wants the detail of the operation's error to say these things in this order.
func inOrder(t *testing.T, op api.Operation, parts ...string) {
	t.Helper()
	rest := op.Error.Detail
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("the error does not say %q in this place: %s", part, op.Error.Detail)
		}
		rest = after
	}
}
