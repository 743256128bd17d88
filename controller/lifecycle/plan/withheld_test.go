package plan_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestASectionIsWithheldUntilTheAgentUnderstandsIt(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	if w.Document(lifecycletest.StorageServer).Storage == nil {
		t.Fatal("something is withheld from an agent that has not polled")
	}
	digest, _ := w.Poll(lifecycletest.StorageServer, lifecycletest.AgentWithout("v0.1", api.SectionStorage))
	if now := w.Document(lifecycletest.StorageServer); now.Storage != nil || now.Proxy == nil || digest != now.Digest() {
		t.Fatalf("the poll of an old agent is answered with %+v", now)
	}
	w.Converge(lifecycletest.StorageServer)
	target := w.Operation(op.ID).Targets[slices.IndexFunc(w.Operation(op.ID).Targets, func(t api.OperationTarget) bool { return t.NodeID == lifecycletest.StorageServer })]
	if got := w.Operation(op.ID); got.State != api.Processing || target.Ready || target.Reason != api.ReasonAgentTooOld || len(got.Withheld) != 1 {
		t.Errorf("INSTANTIATE END is %+v, want PROCESSING until the agent is upgraded", got)
	}
	if !w.Node(lifecycletest.StorageServer).Ready {
		t.Error("the old agent has converged what it was given, and its node is not ready")
	}
	w.Poll(lifecycletest.StorageServer, api.ThisAgent("v0.2"))
	if w.Document(lifecycletest.StorageServer).Storage == nil || len(w.Node(lifecycletest.StorageServer).Withheld) > 0 {
		t.Errorf("the upgraded agent is given %+v", w.Document(lifecycletest.StorageServer))
	}
	w.Report(lifecycletest.StorageServer, w.Status(lifecycletest.StorageServer))
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

// A section that was there and is not understood any more is missing, which means hands
// off: nothing on the machine is removed.
func TestAnAgentThatIsDowngradedLosesNothing(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Poll(lifecycletest.StorageServer, api.ThisAgent("v2"))
	w.Poll(lifecycletest.StorageServer, lifecycletest.AgentWithout("v1", api.SectionStorage))
	if now := w.Document(lifecycletest.StorageServer); now.Storage != nil || slices.Contains(now.Sections(), api.SectionStorage) {
		t.Errorf("the older agent is given %+v", now.Storage)
	}
	w.Poll(lifecycletest.StorageServer, api.ThisAgent("v2"))
	if now := w.Document(lifecycletest.StorageServer); now.Storage == nil || len(now.Storage.Volumes) != 1 || now.Generation != 3 {
		t.Errorf("the upgraded agent is given %+v", now)
	}
}
