package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// healed is the cluster whose storage server was replaced, with its volume.
func healed(replacement string) *api.Topology {
	t := topologyOf(server(replacement, "storage"), server(masterServer, "master"), server(workerServer, "worker"))
	t.StackStatus = "UPDATE_COMPLETE"
	return t
}

func TestHealOfTheStorageServerMovesItsVolume(t *testing.T) {
	w := instantiated(t)
	w.post(heal(api.PhaseStart, nil, storageServer))
	replacement := uuid(1, 2)
	op := w.post(heal(api.PhaseEnd, healed(replacement), storageServer))
	if want := []string{replacement}; op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Fatalf("HEAL END is %+v, want PROCESSING for the replacement alone", op)
	}
	if n := w.node(storageServer); n.State != api.NodeRevoked || n.Ready {
		t.Errorf("the replaced server is %s, want Revoked", n.State)
	}
	if v, err := w.Permits.Get(w.ctx, volume); err != nil || v.NodeID != replacement {
		t.Errorf("volume %+v, %v; want it with the replacement", v, err)
	}
	old, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
	w.must(err)
	kept, _, err := w.LCM.Nodes.NodeConfig(w.ctx, replacement)
	w.must(err)
	if diff := cmp.Diff(old.Storage, kept.Storage); diff != "" {
		t.Errorf("the replacement's storage differs (-old +new):\n%s", diff)
	}
	if n := w.node(masterServer); n.Generation != 1 {
		t.Errorf("the master is at generation %d; the heal does not concern it", n.Generation)
	}
	w.converge(replacement)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
	if w.instance().State != api.Instantiated {
		t.Error("the healed instance is not INSTANTIATED")
	}
}

func TestAFormatThatAReplacedServerBeganIsInterrupted(t *testing.T) {
	w := instantiated(t)
	report := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume), BlankCheck: &api.BlankCheck{}}
	granted, err := w.Permits.Report(w.ctx, storageServer, volume, report)
	w.must(err)
	report.Phase, report.Permit = api.FormatStarted, granted.Permit
	_, err = w.Permits.Report(w.ctx, storageServer, volume, report)
	w.must(err)
	w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
	if v, err := w.Permits.Get(w.ctx, volume); err != nil || v.PermitState != api.PermitInterrupted {
		t.Errorf("volume %+v, %v; want the permit Interrupted", v, err)
	}
}

func TestHealInPlaceWaitsForTheMachineThatEnrolledAnew(t *testing.T) {
	w := instantiated(t)
	w.must(w.Enrollment.Reenroll(w.ctx, workerServer))
	op := w.post(heal(api.PhaseEnd, full(), workerServer))
	if op.State != api.Processing || op.Targets[0].Reason != api.ReasonNotEnrolled {
		t.Fatalf("HEAL END is %+v, want PROCESSING until the rebuilt worker enrolls", op)
	}
	w.Clock.Advance(time.Minute)
	w.must(w.enroll(workerServer))
	if got := w.operation(op.ID); got.State != api.Processing || got.Targets[0].Reason != api.ReasonNotReported {
		t.Fatalf("what the old machine had reported counts for the new one: %+v", got)
	}
	w.report(workerServer, w.status(workerServer))
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
}

func TestAnEntireHealReplacesEveryServerAndTheStack(t *testing.T) {
	w := instantiated(t)
	ids := []string{uuid(1, 2), uuid(2, 2), uuid(3, 2)}
	fresh := topologyOf(server(ids[0], "storage"), server(ids[1], "master"), server(ids[2], "worker"))
	fresh.StackID = stackTwo
	w.post(heal(api.PhaseStart, nil))
	op := w.post(heal(api.PhaseEnd, fresh))
	if !slices.Equal(reconcile.TargetIDs(op.Targets), ids) {
		t.Errorf("targets %v, want all three new servers", op.Targets)
	}
	for _, id := range []string{storageServer, masterServer, workerServer} {
		if n := w.node(id); n.State != api.NodeRevoked {
			t.Errorf("%s (%s) is %s, want Revoked", n.Name, id, n.State)
		}
	}
	w.converge(ids...)
	if got := w.operation(op.ID); got.State != api.Completed || w.instance().StackID != stackTwo {
		t.Errorf("HEAL END is %+v of stack %s", got, w.instance().StackID)
	}
}

func TestScaleInRetiresTheServersThatAreGone(t *testing.T) {
	w := instantiated(t)
	shrunk := topologyOf(server(storageServer, "storage"), server(masterServer, "master"))
	start := scale(api.ScaleIn, api.PhaseStart, nil)
	start.VnfcInstanceIds = []string{"vnfc-" + workerServer}
	w.post(start)
	end := scale(api.ScaleIn, api.PhaseEnd, shrunk)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, end)
	w.refused(err, api.ProblemTopologyIncomplete, "/topology/servers: no server has the role worker", `aspect "worker_instance"`, "add these servers to `topology`, or add `partial`")
	w.offers(err, api.Action{Call: api.CallPostOperation, ID: instanceID, Member: "partial"})
	if n := w.node(workerServer); n.State != api.NodeEnrolled {
		t.Errorf("after an END that was refused the worker is %s", n.State)
	}
	end.Partial = true
	op := w.post(end)
	if op.State != api.Completed || len(op.Targets) != 0 {
		t.Errorf("SCALE_IN END is %+v, want COMPLETED", op)
	}
	if n := w.node(workerServer); n.State != api.NodeRevoked {
		t.Errorf("the worker is %s, want Revoked", n.State)
	}
}

func TestOtherUnhealthyNodesAreWarnings(t *testing.T) {
	w := instantiated(t)
	sick := w.status(masterServer)
	sick.Conditions[0].Status = api.ConditionFalse
	w.report(masterServer, sick)
	grown := full()
	grown.Servers = append(grown.Servers, server(uuid(3, 2), "worker"))
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.converge(uuid(3, 2))
	if got := w.operation(op.ID); got.State != api.Completed || !saysOne(got.Warnings, "", "master ("+masterServer+") is not ready") {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED with a warning of the master", got)
	}
}

func TestTerminateRevokesEverybody(t *testing.T) {
	w := instantiated(t)
	if op := w.post(request(api.Terminate, api.PhaseStart)); op.State != api.Completed {
		t.Fatalf("TERMINATE START is %+v", op)
	}
	if n := w.node(workerServer); n.State != api.NodeEnrolled {
		t.Errorf("the worker is %s after TERMINATE START; its VM is still there", n.State)
	}
	if op := w.post(request(api.Terminate, api.PhaseEnd)); op.State != api.Completed || op.StackID != stackOne {
		t.Fatalf("TERMINATE END is %+v", op)
	}
	i := w.instance()
	if i.State != api.NotInstantiated || len(i.Nodes) != 0 || i.Topology != nil || i.StackID != "" {
		t.Errorf("instance %+v, want NOT_INSTANTIATED without nodes", i)
	}
	for _, id := range []string{storageServer, masterServer, workerServer} {
		n := w.node(id)
		if n.State != api.NodeRevoked {
			t.Errorf("%s is %s, want Revoked", n.Name, n.State)
		}
		w.refused(w.enroll(id), api.ProblemServerNotExpected)
	}
	// The parameters are kept: a new stack instantiates again.
	again := request(api.Instantiate, api.PhaseEnd)
	again.Topology, again.Partial = topologyOf(server(uuid(1, 2), "storage")), true
	op := w.post(again)
	w.converge(uuid(1, 2))
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

// shrunkStart is a START whose topology lacks the worker: it changes the desired state.
func shrunkStart() api.OperationRequest {
	return heal(api.PhaseStart, topologyOf(server(storageServer, "storage"), server(masterServer, "master")), storageServer)
}

func TestAStartWhoseEndDoesNotComeIsTakenBack(t *testing.T) {
	w := instantiated(t)
	before := w.instance()
	start := w.post(shrunkStart())
	if got := w.instance(); len(got.Nodes) != 2 || got.DesiredVersion == before.DesiredVersion {
		t.Fatalf("the START's topology is not in force: %v", got.Nodes)
	}
	if n := w.node(workerServer); n.State != api.NodeEnrolled {
		t.Errorf("a START revoked the worker (%s)", n.State)
	}
	w.Clock.Advance(30 * time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	got := w.operation(start.ID)
	if got.State != api.Failed {
		t.Fatalf("the START is %+v, want FAILED", got)
	}
	w.refused(got.Error, api.ProblemInterrupted, "its END did not come", "the previous desired state is in force again")
	if after := w.instance(); after.DesiredVersion != before.DesiredVersion || len(after.Nodes) != 3 {
		t.Errorf("version %d with nodes %v, want %d and all three", after.DesiredVersion, after.Nodes, before.DesiredVersion)
	}
	if w.writes(func() { w.must(w.LCM.Sweep(w.ctx)) }) {
		t.Error("a sweep with nothing to do wrote to the store")
	}
}

func TestAStartIsNotTakenBackWhen(t *testing.T) {
	status := full()
	status.StackStatus = "UPDATE_COMPLETE"
	for name, c := range map[string]struct {
		start   api.OperationRequest
		between func(w *world)
	}{
		"its END has come":    {shrunkStart(), func(w *world) { w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer)) }},
		"it changed nothing":  {heal(api.PhaseStart, status, storageServer), func(*world) {}},
		"Tacker calls no END": {scaleInStart(), func(*world) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			start := w.post(c.start)
			c.between(w)
			version := w.instance().DesiredVersion
			w.Clock.Advance(time.Hour)
			w.must(w.LCM.Sweep(w.ctx))
			if got := w.operation(start.ID); got.State != api.Completed {
				t.Errorf("the START is %+v, want COMPLETED as before", got)
			}
			if got := w.instance().DesiredVersion; got != version {
				t.Errorf("version %d is in force, want %d", got, version)
			}
		})
	}
}

// scaleInStart changes the desired state too: the worker is gone already.
func scaleInStart() api.OperationRequest {
	r := scale(api.ScaleIn, api.PhaseStart, topologyOf(server(storageServer, "storage"), server(masterServer, "master")))
	r.VnfcInstanceIds = []string{"vnfc-" + workerServer}
	return r
}

func TestAnotherOperationTakesAnAbandonedStartBackFirst(t *testing.T) {
	w := instantiated(t)
	start := w.post(shrunkStart())
	op := w.post(scale(api.ScaleOut, api.PhaseStart, nil))
	got := w.operation(start.ID)
	w.refused(got.Error, api.ProblemInterrupted, "SCALE_OUT START came before its END")
	if op.State != api.Completed || len(w.instance().Nodes) != 3 {
		t.Errorf("nodes %v, want all three again", w.instance().Nodes)
	}
}

func TestAnEndOfAFailedStackTakesAnAbandonedStartBackToo(t *testing.T) {
	w := instantiated(t)
	w.post(shrunkStart())
	broken := full()
	broken.StackStatus = "UPDATE_FAILED"
	if op := w.post(scale(api.ScaleOut, api.PhaseEnd, broken)); op.State != api.Failed {
		t.Fatalf("SCALE_OUT END is %+v, want FAILED", op)
	}
	if got := w.instance().Nodes; len(got) != 3 {
		t.Errorf("nodes %v, want all three again", got)
	}
	if w.writes(func() { w.must(w.LCM.Reconciler.Reconcile(w.ctx, instanceID)) }) {
		t.Error("the nodes were not in line with the desired state in force")
	}
}

func TestANewerPutOutlivesAStartThatIsTakenBack(t *testing.T) {
	w := instantiated(t)
	start := w.post(shrunkStart())
	other := spec(nil)
	other.AdditionalParams = parameters("10.20.0.0/24")
	version := w.put(other).DesiredVersion
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	w.refused(w.operation(start.ID).Error, api.ProblemInterrupted, "a newer version of the desired state is in force and stays")
	if got := w.instance().DesiredVersion; got != version {
		t.Errorf("version %d is in force, want the PUT's %d", got, version)
	}
}

func TestARepeatedStartGoesBackToWhatWasBeforeTheFirst(t *testing.T) {
	w := instantiated(t)
	before := w.instance().DesiredVersion
	w.post(shrunkStart())
	w.Clock.Advance(time.Minute)
	second := w.post(shrunkStart())
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.instance().DesiredVersion; got != before || w.operation(second.ID).State != api.Failed {
		t.Errorf("version %d is in force, want %d", got, before)
	}
}

func TestOperationsSurviveARestart(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(masterServer)
	w.restart()
	if diff := cmp.Diff(api.Processing, w.operation(op.ID).State); diff != "" {
		t.Fatal(diff)
	}
	w.converge(storageServer)
	w.restart()
	w.converge(workerServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("the operation is %+v, want COMPLETED", got)
	}
	scaled := full()
	scaled.Servers = append(scaled.Servers, server(uuid(3, 2), "worker"))
	late := w.post(scale(api.ScaleOut, api.PhaseEnd, scaled))
	w.Clock.Advance(time.Hour) // the controller was away when the deadline passed
	w.restart()
	if got := w.operation(late.ID); got.State != api.Failed || !strings.Contains(got.Error.Detail, "NotEnrolled") {
		t.Errorf("the operation is %+v, want FAILED after its deadline", got)
	}
}

func TestARestoredBackupCountsNoOldSuccess(t *testing.T) {
	w := instantiated(t)
	op := w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
	w.must(w.enroll(uuid(1, 2)))
	before := w.status(uuid(1, 2))
	w.restored()
	_, err := w.LCM.Instances.ConfirmInstance(w.ctx, instanceID)
	w.must(err)
	w.report(uuid(1, 2), before)
	if got := w.operation(op.ID); got.State != api.Processing || got.Targets[0].Ready || len(got.Targets) != 1 {
		t.Errorf("with a status of the epoch before, HEAL END is %+v", got)
	}
	if n := w.node(masterServer); n.Ready || n.Generation != 2 {
		t.Errorf("the master is ready (%v) at generation %d, want not, at 2", n.Ready, n.Generation)
	}
	w.converge(uuid(1, 2))
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
}

// The other instance took the server while this one had said that it leaves.
func TestGoingBackToAServerThatHasMovedStopsNothing(t *testing.T) {
	w := instantiated(t)
	w.post(heal(api.PhaseStart, topologyOf(server(storageServer, "storage"), server(masterServer, "master"))))
	const other = "0a5e1f0c-3f0e-4c1c-8a56-0f3a7f5b1c2d"
	moved := topologyOf(server(workerServer, "worker"))
	moved.Volumes = nil
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, other, spec(moved))
	w.must(err)
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	if start := w.operations()[0]; start.State != api.Failed || start.Error.Type != api.ProblemInterrupted {
		t.Errorf("HEAL START is %+v, want it taken back after its deadline", start)
	}
	if n := w.node(workerServer); n.VnfInstanceID != other {
		t.Errorf("the worker is a node of %s, want of the instance that has it now", n.VnfInstanceID)
	}
	if !saysOne(w.instance().Warnings, "/topology/servers/2/id", "belongs to VNF instance "+other) {
		t.Errorf("warnings %v, want one that says who has the worker", w.instance().Warnings)
	}
}

// A server leaves in the middle of a format that an operator permitted: its END tells
// so to the one that has the volume now, and waits until that has seen it.
func TestAnEndWaitsForWhatItsLeavingServersLeaveBehind(t *testing.T) {
	w := instantiated(t)
	sick := w.status(storageServer)
	for i := range sick.Conditions {
		sick.Conditions[i].Status = api.ConditionFalse
	}
	w.report(storageServer, sick)
	_, err := w.Permits.Reformat(w.ctx, volume, volume)
	w.must(err)
	other := uuid(1, 2)
	moved := topologyOf(server(other, "storage"), server(masterServer, "master"), server(workerServer, "worker"))
	w.put(spec(moved))
	w.converge(other)
	op := w.post(heal(api.PhaseEnd, nil, storageServer))
	if w.document(other).Storage.Volumes[0].FormatInterruptedBy != storageServer {
		t.Fatalf("the document of the volume's server is %+v, want it to say who began a format", w.document(other))
	}
	if op.State != api.Processing {
		t.Errorf("HEAL END is %+v, and %s has not seen its document", op, other)
	}
	w.converge(other)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
}
