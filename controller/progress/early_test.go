package progress_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What waiting may mend, by the agent's own word or by the reason, ends at the deadline.
func TestAnEndThatWaitingMayCompleteLastsUntilItsDeadline(t *testing.T) {
	for name, c := range map[string]func(*lcmtest.World){
		"a size that differs": func(w *lcmtest.World) {
			w.ReportFailed(lcmtest.StorageServer, api.ConditionVolumesMounted, api.ReasonSizeMismatch, "2 GiB")
		},
		"a volume on two servers": func(w *lcmtest.World) {
			w.ReportFailed(lcmtest.StorageServer, api.ConditionVolumesMounted, api.ReasonMultiAttached, "detach it")
		},
		"what the agent tries again": func(w *lcmtest.World) {
			w.ReportRetried(lcmtest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData)
		},
		"another node is converging": func(w *lcmtest.World) {
			w.ReportRetried(lcmtest.WorkerServer, api.ConditionNFSClientInstalled, api.ReasonPackageManagerBusy)
		},
		"another node is a new machine": func(w *lcmtest.World) {
			w.Must(w.Enrollment.Reenroll(w.Ctx, lcmtest.WorkerServer))
			w.Must(w.Enroll(lcmtest.WorkerServer))
		},
		"a new document": func(w *lcmtest.World) {
			s := lcmtest.Spec(lcmtest.FullTopology())
			s.AdditionalParams = lcmtest.Parameters("10.20.0.0/24")
			w.Put(s)
		},
		"a report about the document before": func(w *lcmtest.World) {
			old := w.Lacking(lcmtest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			old.LastFailedCondition, old.LastFailedGeneration = api.ConditionVolumesMounted, old.ObservedGeneration-1
			w.Report(lcmtest.StorageServer, old)
		},
		"a condition of the document before": func(w *lcmtest.World) {
			old := w.Lacking(lcmtest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			old.LastFailedCondition, old.LastFailedGeneration = api.ConditionVolumesMounted, old.ObservedGeneration
			old.Condition(api.ConditionVolumesMounted).ObservedGeneration--
			w.Report(lcmtest.StorageServer, old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, op := lcmtest.ForeignDisk(t, lcmtest.Spec(lcmtest.FullTopology()))
			w.Wait(lcmtest.Grace / 2)
			c(w)
			for w.Clock.Now().Before(op.Deadline.Add(-time.Minute)) {
				w.Wait(time.Minute)
				w.WantOutcome(op, lcmtest.Processing, "before its deadline")
			}
			w.Wait(time.Minute)
			w.WantOutcome(op, "FAILED deadline-exceeded", "at its deadline")
		})
	}
}

// A master that lacks nothing but what the storage server is to serve fails with it, and
// the cause is named first, wherever the nodes stand in the list.
func TestANodeThatWaitsOnlyForAFailedOneDoesNotKeepTheEndWaiting(t *testing.T) {
	w := lcmtest.New(t)
	last := lcmtest.UUID(8, 1) // the storage server, which comes after the master in every list
	w.Put(lcmtest.WithVolumes(lcmtest.TopologyOf(lcmtest.Server(last, "storage"), lcmtest.Server(lcmtest.MasterServer, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker"))))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lcmtest.MasterServer, lcmtest.WorkerServer)
	w.Must(w.Enroll(last))
	w.ReportFailed(last, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	master := targetOf(w.Operation(op.ID), lcmtest.MasterServer)
	if master.Reason != api.ReasonWaitingForExports || master.WaitsFor != last || master.Final {
		t.Fatalf("the master is %+v, want one that waits for the storage server", master)
	}
	w.Wait(lcmtest.Grace)
	w.WantOutcome(op, lcmtest.TargetsFailed, "after the grace")
	inOrder(t, w.Operation(op.ID), "ForeignData", "WaitingForExports")
	want := []string{last, lcmtest.WorkerServer, lcmtest.MasterServer}
	if got := reconcile.TargetIDs(w.Operation(op.ID).Targets); !slices.Equal(got, want) {
		t.Errorf("the targets are %v, want the storage server first and the master, which only waits, last: %v", got, want)
	}
}

// A master that is not there yet has failed by itself, whatever it would wait for then.
func TestWaitingForExportsHidesNoCause(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.WithVolumes(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 3600
	op := w.Post(r)
	if got := targetOf(w.Operation(op.ID), lcmtest.MasterServer); got.Reason != api.ReasonNotEnrolled {
		t.Errorf("a master that has not enrolled is %+v", got)
	}
	w.Converge(lcmtest.MasterServer, lcmtest.WorkerServer)
	if got := targetOf(w.Operation(op.ID), lcmtest.MasterServer); got.Reason != api.ReasonWaitingForExports {
		t.Errorf("a master that lacks nothing else is %+v", got)
	}
	w.Wait(time.Hour)
	w.WantOutcome(op, "FAILED deadline-exceeded", "while the storage server has not enrolled")
	inOrder(t, w.Operation(op.ID), "storage ("+lcmtest.StorageServer+"): NotEnrolled", "WaitingForExports")

	again := w.Post(r)
	w.Must(w.Enroll(lcmtest.StorageServer))
	w.ReportRetried(lcmtest.MasterServer, api.ConditionNFSClientInstalled, api.ReasonPackageManagerBusy)
	w.ReportFailed(lcmtest.StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	w.Wait(lcmtest.Grace)
	w.WantOutcome(again, lcmtest.Processing, "while the master lacks something of its own")
	w.Report(lcmtest.MasterServer, w.Status(lcmtest.MasterServer))
	w.Wait(lcmtest.Grace)
	w.WantOutcome(again, lcmtest.TargetsFailed, "once it only waits")
}

// The node that has failed need not be a target: an operation on the master alone waits for
// it as well.
func TestTheCauseMayBeNoTarget(t *testing.T) {
	w := lcmtest.New(t)
	two := lcmtest.TopologyOf(append(lcmtest.FullTopology().Servers, lcmtest.Server(lcmtest.UUID(2, 2), "master"))...)
	w.Put(lcmtest.WithVolumes(two))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	whole := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.UUID(2, 2), lcmtest.WorkerServer)
	w.Converge(lcmtest.MasterServer)
	w.WantOutcome(whole, lcmtest.Completed, "with all nodes ready")
	changed := lcmtest.WithVolumes(two)
	changed.AdditionalParams = lcmtest.VolumesParameters("10.20.0.0/24")
	w.Put(changed)
	op := w.Post(lcmtest.Heal(api.PhaseEnd, two, lcmtest.MasterServer))
	if want := []string{lcmtest.MasterServer}; !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Fatalf("the targets are %+v, want the master alone", op.Targets)
	}
	w.Report(lcmtest.MasterServer, w.Status(lcmtest.MasterServer))
	w.Wait(lcmtest.Grace)
	w.WantOutcome(op, lcmtest.Processing, "while the storage server has not failed")
	w.ReportFailed(lcmtest.StorageServer, api.ConditionExportsServed, api.ReasonExportRefused, "a symbolic link")
	w.Wait(lcmtest.Grace - time.Second)
	w.WantOutcome(op, lcmtest.Processing, "a second before the grace is over")
	w.Wait(time.Second)
	w.WantOutcome(op, lcmtest.TargetsFailed, "after it")
	inOrder(t, w.Operation(op.ID), "storage ("+lcmtest.StorageServer+"): ExportRefused", "WaitingForExports")
}

// Whatever waits for no report has failed finally too: nothing observes the stack again.
func TestAnUnresolvedConnectionPointIsFinal(t *testing.T) {
	w := lcmtest.New(t)
	s := lcmtest.WithVolumes(lcmtest.FullTopology())
	s.AdditionalParams = []byte(strings.Replace(string(s.AdditionalParams), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "nfs_CP"`, 1))
	w.Put(s)
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	w.Wait(lcmtest.Grace)
	w.WantOutcome(op, lcmtest.TargetsFailed, "after the grace")
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
