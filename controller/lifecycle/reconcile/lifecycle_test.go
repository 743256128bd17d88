package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestHealOfTheStorageServerMovesItsVolume(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	replacement := lifecycletest.UUID(1, 2)
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer))
	if want := []string{replacement}; op.State != api.Processing || !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Fatalf("HEAL END is %+v, want PROCESSING for the replacement alone", op)
	}
	if n := w.Node(lifecycletest.StorageServer); n.State != api.NodeRevoked || n.Ready {
		t.Errorf("the replaced server is %s, want Revoked", n.State)
	}
	if v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume); err != nil || v.NodeID != replacement {
		t.Errorf("volume %+v, %v; want it with the replacement", v, err)
	}
	old, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
	w.Must(err)
	kept, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, replacement)
	w.Must(err)
	if diff := cmp.Diff(old.Storage, kept.Storage); diff != "" {
		t.Errorf("the replacement's storage differs (-old +new):\n%s", diff)
	}
	if n := w.Node(lifecycletest.MasterServer); n.Generation != 1 {
		t.Errorf("the master is at generation %d; the heal does not concern it", n.Generation)
	}
	w.Converge(replacement)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
	if w.Instance().State != api.Instantiated {
		t.Error("the healed instance is not INSTANTIATED")
	}
}

func TestAFormatThatAReplacedServerBeganIsInterrupted(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	report := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lifecycletest.Volume), BlankCheck: &api.BlankCheck{}}
	granted, err := w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, report)
	w.Must(err)
	report.Phase, report.Permit = api.FormatStarted, granted.Permit
	_, err = w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, report)
	w.Must(err)
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
	if v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume); err != nil || v.PermitState != api.PermitInterrupted {
		t.Errorf("volume %+v, %v; want the permit Interrupted", v, err)
	}
}

func TestScaleInRetiresTheServersThatAreGone(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	shrunk := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"))
	start := lifecycletest.Scale(api.ScaleIn, api.PhaseStart, nil)
	start.VnfcInstanceIds = []string{"vnfc-" + lifecycletest.WorkerServer}
	w.Post(start)
	end := lifecycletest.Scale(api.ScaleIn, api.PhaseEnd, shrunk)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, end)
	w.WantRefused(err, api.ProblemTopologyIncomplete, "/topology/servers: no server has the role worker", `aspect "worker_instance"`, "add these servers to `topology`, or add `partial`")
	w.WantActions(err, api.Action{Call: api.CallPostOperation, ID: lifecycletest.InstanceID, Member: "partial"})
	if n := w.Node(lifecycletest.WorkerServer); n.State != api.NodeEnrolled {
		t.Errorf("after an END that was refused the worker is %s", n.State)
	}
	end.Partial = true
	op := w.Post(end)
	if op.State != api.Completed || len(op.Targets) != 0 {
		t.Errorf("SCALE_IN END is %+v, want COMPLETED", op)
	}
	if n := w.Node(lifecycletest.WorkerServer); n.State != api.NodeRevoked {
		t.Errorf("the worker is %s, want Revoked", n.State)
	}
}

func TestOtherUnhealthyNodesAreWarnings(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	sick := w.Status(lifecycletest.MasterServer)
	sick.Conditions[0].Status = api.ConditionFalse
	w.Report(lifecycletest.MasterServer, sick)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(lifecycletest.UUID(3, 2))
	if got := w.Operation(op.ID); got.State != api.Completed || !lifecycletest.HasFault(got.Warnings, "", "master ("+lifecycletest.MasterServer+") is not ready") {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED with a warning of the master", got)
	}
}

// The other instance took the server while this one had said that it leaves.
func TestGoingBackToAServerThatHasMovedStopsNothing(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Post(lifecycletest.Heal(api.PhaseStart, lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"))))
	const other = "0a5e1f0c-3f0e-4c1c-8a56-0f3a7f5b1c2d"
	moved := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.WorkerServer, "worker"))
	moved.Volumes = nil
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, other, lifecycletest.Spec(moved))
	w.Must(err)
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if start := w.Operations()[0]; start.State != api.Failed || start.Error.Type != api.ProblemInterrupted {
		t.Errorf("HEAL START is %+v, want it taken back after its deadline", start)
	}
	if n := w.Node(lifecycletest.WorkerServer); n.VnfInstanceID != other {
		t.Errorf("the worker is a node of %s, want of the instance that has it now", n.VnfInstanceID)
	}
	if !lifecycletest.HasFault(w.Instance().Warnings, "/topology/servers/2/id", "belongs to VNF instance "+other) {
		t.Errorf("warnings %v, want one that says who has the worker", w.Instance().Warnings)
	}
}

// A server leaves in the middle of a format that an operator permitted: its END tells
// so to the one that has the volume now, and waits until that has seen it.
func TestAnEndWaitsForWhatItsLeavingServersLeaveBehind(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	sick := w.Status(lifecycletest.StorageServer)
	for i := range sick.Conditions {
		sick.Conditions[i].Status = api.ConditionFalse
	}
	w.Report(lifecycletest.StorageServer, sick)
	_, err := w.Permits.Reformat(w.Ctx, lifecycletest.Volume, lifecycletest.Volume)
	w.Must(err)
	other := lifecycletest.UUID(1, 2)
	moved := lifecycletest.TopologyOf(lifecycletest.Server(other, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))
	w.Put(lifecycletest.Spec(moved))
	w.Converge(other)
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.StorageServer))
	if w.Document(other).Storage.Volumes[0].FormatInterruptedBy != lifecycletest.StorageServer {
		t.Fatalf("the document of the volume's server is %+v, want it to say who began a format", w.Document(other))
	}
	if op.State != api.Processing {
		t.Errorf("HEAL END is %+v, and %s has not seen its document", op, other)
	}
	w.Converge(other)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("HEAL END is %+v, want COMPLETED", got)
	}
}
