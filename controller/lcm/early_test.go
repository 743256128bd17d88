package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

var grace = time.Duration(config.Default().FailureGraceSeconds) * time.Second

// fails is a report in which the condition has failed for this reason, so that the agent
// waits for somebody to act.
func (w *world) fails(nodeID, condition string, reason api.Reason, message string) {
	w.Helper()
	s := w.lacks(nodeID, condition, reason, message)
	s.LastFailedGeneration, s.LastFailedCondition = s.ObservedGeneration, condition
	w.report(nodeID, s)
}

// waits is a report in which the agent tries again what has failed for this reason.
func (w *world) waits(nodeID, condition string, reason api.Reason) {
	w.Helper()
	w.report(nodeID, w.lacks(nodeID, condition, reason, "it is tried again"))
}

func (w *world) lacks(nodeID, condition string, reason api.Reason, message string) api.NodeStatus {
	w.Helper()
	s := w.status(nodeID)
	c := s.Condition(condition)
	c.Status, c.Reason, c.Message = api.ConditionFalse, reason, message
	s.Condition(api.ConditionReady).Status = api.ConditionFalse
	if condition == api.ConditionVolumesMounted { // what lies on the volume is not served
		served := s.Condition(api.ConditionExportsServed)
		served.Status, served.Reason = api.ConditionFalse, api.ReasonNotMounted
	}
	s.AppliedGeneration, s.AppliedDigest = 0, ""
	return s
}

// passes lets time pass, and the controller notice what is over.
func (w *world) passes(d time.Duration) {
	w.Helper()
	w.Clock.Advance(d)
	w.must(w.LCM.Sweep(w.ctx))
}

// state is that of the operation now, with the type of its problem.
func (w *world) state(op api.Operation) string {
	w.Helper()
	op = w.operation(op.ID)
	if op.Error == nil {
		return string(op.State)
	}
	return string(op.State) + " " + strings.TrimPrefix(op.Error.Type, api.ProblemPrefix)
}

func (w *world) wants(op api.Operation, want, when string) {
	w.Helper()
	if got := w.state(op); got != want {
		w.Fatalf("%s the operation is %s, want %s: %+v", when, got, want, w.operation(op.ID))
	}
}

const (
	processing    = "PROCESSING"
	completed     = "COMPLETED"
	targetsFailed = "FAILED targets-failed"
)

// foreignDisk is an INSTANTIATE END all of whose servers are ready but the storage server, whose
// disk holds data of others.
func foreignDisk(t tester, s api.InstanceSpec) (*world, api.Operation) {
	t.Helper()
	w := newWorld(t)
	w.put(s)
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(masterServer, workerServer)
	w.must(w.enroll(storageServer))
	w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	return w, op
}

func TestAnEndWhoseTargetsHaveFailedFinallyFailsAfterTheGrace(t *testing.T) {
	w, op := foreignDisk(t, spec(full()))
	w.passes(grace - time.Second)
	w.wants(op, processing, "a second before the grace is over")
	w.passes(time.Second)
	w.wants(op, targetsFailed, "after the grace")
	failed := w.operation(op.ID)
	w.refused(failed.Error, api.ProblemTargetsFailed, "storage ("+storageServer+"): ForeignData, VolumesMounted: found xfs", "3m0s", "post the operation again")
	if i := slices.IndexFunc(failed.Targets, func(target api.OperationTarget) bool { return target.Final }); i != 0 || failed.Targets[0].NodeID != storageServer {
		t.Errorf("the targets are %+v, want the storage server first, and it alone final", failed.Targets)
	}

	// A retry waits for what failed, and completes once it is mended.
	retry := w.post(request(api.Instantiate, api.PhaseEnd))
	w.wants(retry, processing, "posted again")
	w.converge(storageServer)
	w.wants(retry, completed, "once the disk is mended")
}

// While nothing changes, nothing is written: neither for what nodes repeat, nor for the time
// that passes, nor when the instance is planned again for another reason.
func TestAnEndThatIsStuckWritesNothing(t *testing.T) {
	w, op := foreignDisk(t, spec(full()))
	w.passes(time.Second)
	for range 3 {
		if w.writes(func() {
			w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			w.passes(time.Second)
			w.must(w.LCM.Reconciler.Reconcile(w.ctx, instanceID))
		}) {
			t.Error("the same report, a second or a plan without a change was written")
		}
	}
	w.wants(op, processing, "meanwhile")
}

// What waiting may mend, by the agent's own word or by the reason, ends at the deadline.
func TestAnEndThatWaitingMayCompleteLastsUntilItsDeadline(t *testing.T) {
	for name, c := range map[string]func(*world){
		"a size that differs": func(w *world) {
			w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonSizeMismatch, "2 GiB")
		},
		"a volume on two servers": func(w *world) {
			w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonMultiAttached, "detach it")
		},
		"what the agent tries again": func(w *world) { w.waits(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData) },
		"another node is converging": func(w *world) { w.waits(workerServer, api.ConditionNFSClientInstalled, api.ReasonPackageManagerBusy) },
		"another node is a new machine": func(w *world) {
			w.must(w.Enrollment.Reenroll(w.ctx, workerServer))
			w.must(w.enroll(workerServer))
		},
		"a new document": func(w *world) {
			s := spec(full())
			s.AdditionalParams = parameters("10.20.0.0/24")
			w.put(s)
		},
		"a report about the document before": func(w *world) {
			old := w.lacks(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			old.LastFailedCondition, old.LastFailedGeneration = api.ConditionVolumesMounted, old.ObservedGeneration-1
			w.report(storageServer, old)
		},
		"a condition of the document before": func(w *world) {
			old := w.lacks(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
			old.LastFailedCondition, old.LastFailedGeneration = api.ConditionVolumesMounted, old.ObservedGeneration
			old.Condition(api.ConditionVolumesMounted).ObservedGeneration--
			w.report(storageServer, old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, op := foreignDisk(t, spec(full()))
			w.passes(grace / 2)
			c(w)
			for w.Clock.Now().Before(op.Deadline.Add(-time.Minute)) {
				w.passes(time.Minute)
				w.wants(op, processing, "before its deadline")
			}
			w.passes(time.Minute)
			w.wants(op, "FAILED deadline-exceeded", "at its deadline")
		})
	}
}

func TestAChangeBeginsTheGraceAnew(t *testing.T) {
	w, op := foreignDisk(t, spec(full()))
	w.passes(grace - time.Second)
	w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found ext4")
	w.passes(grace - time.Second)
	w.wants(op, processing, "a second before the grace since the change is over")
	w.waits(storageServer, api.ConditionVolumesMounted, api.ReasonUnreadable)
	w.passes(grace)
	w.wants(op, processing, "while the agent tries again")
	w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found ext4")
	w.passes(grace - time.Second)
	w.wants(op, processing, "a second before the grace is over")
	w.passes(time.Second)
	w.wants(op, targetsFailed, "after the grace")
}

// The time is in the record. Only what nodes have mended while the controller was down has
// the time to arrive.
func TestTheGraceSurvivesARestart(t *testing.T) {
	w, op := foreignDisk(t, spec(full()))
	w.passes(grace - 2*api.LongestRetry)
	w.restart()
	w.passes(2*api.LongestRetry - time.Second)
	w.wants(op, processing, "a second before the grace is over")
	w.passes(time.Second)
	w.wants(op, targetsFailed, "after the grace")

	w, op = foreignDisk(t, spec(full()))
	w.Clock.Advance(op.Deadline.Sub(w.Clock.Now()) / 2) // it is down
	w.restart()
	w.passes(api.LongestRetry - time.Second)
	w.wants(op, processing, "before nodes had the time to report")
	w.converge(storageServer)
	w.wants(op, completed, "once the node reports that it is mended")
}

// A setting that is changed counts from the next start on, also for an END in progress.
func TestTheGraceIsASetting(t *testing.T) {
	w, op := foreignDisk(t, spec(full()))
	w.Config.FailureGraceSeconds = 600
	w.restart()
	w.passes(599 * time.Second)
	w.wants(op, processing, "a second before the longer grace is over")
	w.passes(time.Second)
	w.wants(op, targetsFailed, "after it")
}

// A master that lacks nothing but what the storage server is to serve fails with it, and
// the cause is named first, wherever the nodes stand in the list.
func TestANodeThatWaitsOnlyForAFailedOneDoesNotKeepTheEndWaiting(t *testing.T) {
	w := newWorld(t)
	last := uuid(8, 1) // the storage server, which comes after the master in every list
	w.put(withVolumes(topologyOf(server(last, "storage"), server(masterServer, "master"), server(workerServer, "worker"))))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(masterServer, workerServer)
	w.must(w.enroll(last))
	w.fails(last, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	master := targetOf(w.operation(op.ID), masterServer)
	if master.Reason != api.ReasonWaitingForExports || master.WaitsFor != last || master.Final {
		t.Fatalf("the master is %+v, want one that waits for the storage server", master)
	}
	w.passes(grace)
	w.wants(op, targetsFailed, "after the grace")
	inOrder(t, w.operation(op.ID), "ForeignData", "WaitingForExports")
	want := []string{last, workerServer, masterServer}
	if got := reconcile.TargetIDs(w.operation(op.ID).Targets); !slices.Equal(got, want) {
		t.Errorf("the targets are %v, want the storage server first and the master, which only waits, last: %v", got, want)
	}
}

// A master that is not there yet has failed by itself, whatever it would wait for then.
func TestWaitingForExportsHidesNoCause(t *testing.T) {
	w := newWorld(t)
	w.put(withVolumes(full()))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	r := request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 3600
	op := w.post(r)
	if got := targetOf(w.operation(op.ID), masterServer); got.Reason != api.ReasonNotEnrolled {
		t.Errorf("a master that has not enrolled is %+v", got)
	}
	w.converge(masterServer, workerServer)
	if got := targetOf(w.operation(op.ID), masterServer); got.Reason != api.ReasonWaitingForExports {
		t.Errorf("a master that lacks nothing else is %+v", got)
	}
	w.passes(time.Hour)
	w.wants(op, "FAILED deadline-exceeded", "while the storage server has not enrolled")
	inOrder(t, w.operation(op.ID), "storage ("+storageServer+"): NotEnrolled", "WaitingForExports")

	again := w.post(r)
	w.must(w.enroll(storageServer))
	w.waits(masterServer, api.ConditionNFSClientInstalled, api.ReasonPackageManagerBusy)
	w.fails(storageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	w.passes(grace)
	w.wants(again, processing, "while the master lacks something of its own")
	w.report(masterServer, w.status(masterServer))
	w.passes(grace)
	w.wants(again, targetsFailed, "once it only waits")
}

// The node that has failed need not be a target: an operation on the master alone waits for
// it as well.
func TestTheCauseMayBeNoTarget(t *testing.T) {
	w := newWorld(t)
	two := topologyOf(append(full().Servers, server(uuid(2, 2), "master"))...)
	w.put(withVolumes(two))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	whole := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer, masterServer, uuid(2, 2), workerServer)
	w.converge(masterServer)
	w.wants(whole, completed, "with all nodes ready")
	changed := withVolumes(two)
	changed.AdditionalParams = withManifest("10.20.0.0/24")
	w.put(changed)
	op := w.post(heal(api.PhaseEnd, two, masterServer))
	if want := []string{masterServer}; !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Fatalf("the targets are %+v, want the master alone", op.Targets)
	}
	w.report(masterServer, w.status(masterServer))
	w.passes(grace)
	w.wants(op, processing, "while the storage server has not failed")
	w.fails(storageServer, api.ConditionExportsServed, api.ReasonExportRefused, "a symbolic link")
	w.passes(grace - time.Second)
	w.wants(op, processing, "a second before the grace is over")
	w.passes(time.Second)
	w.wants(op, targetsFailed, "after it")
	inOrder(t, w.operation(op.ID), "storage ("+storageServer+"): ExportRefused", "WaitingForExports")
}

// Whatever waits for no report has failed finally too: nothing observes the stack again.
func TestAnUnresolvedConnectionPointIsFinal(t *testing.T) {
	w := newWorld(t)
	s := withVolumes(full())
	s.AdditionalParams = []byte(strings.Replace(string(s.AdditionalParams), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "nfs_CP"`, 1))
	w.put(s)
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer, masterServer, workerServer)
	w.passes(grace)
	w.wants(op, targetsFailed, "after the grace")
	inOrder(t, w.operation(op.ID), "ConnectionPointUnresolved", `nfs_server_cp "nfs_CP"`)
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
