package instance_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAPutComesBeforeItsStack(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	i := w.Put(lifecycletest.StackSpec("vnf-1"))
	if i.StackID != "vnf-1" || i.Topology != nil || !lifecycletest.HasFault(i.Warnings, "/stackId", "the cloud has no stack vnf-1") {
		t.Errorf("instance %+v, want the stack as it was named, and a warning that it is not there", i)
	}
	if w.Writes(func() { w.Put(lifecycletest.StackSpec("vnf-1")) }) {
		t.Error("the same PUT again was written")
	}
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	start := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	if start.State != api.Completed || !lifecycletest.HasFault(start.Warnings, "/stackId", "the cloud has no stack vnf-1") {
		t.Errorf("INSTANTIATE START is %+v, want COMPLETED with a warning", start)
	}
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemStackGone, "vnf-1")
	c.Stacks[lifecycletest.StackOne], c.Names["vnf-1"] = lifecycletest.FullTopology(), lifecycletest.StackOne
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	i = w.Instance()
	if op.StackID != lifecycletest.StackOne || i.StackID != lifecycletest.StackOne || len(i.Nodes) != 3 || len(i.Warnings) != 0 {
		t.Errorf("operation of stack %q, instance %+v; want the stack's id and servers, and no warning any more", op.StackID, i)
	}
	if s := i.Stack; s == nil || s.Name != "vnf-1" || s.Status != "CREATE_COMPLETE" || s.Source != api.ObservedByHeat || !s.ObservedAt.Equal(w.Clock.Now()) {
		t.Errorf("the stack is shown as %+v", i.Stack)
	}
	// A hook that still gives the name means the same stack.
	if w.Writes(func() { w.Put(lifecycletest.StackSpec("vnf-1")) }) || w.Instance().StackID != lifecycletest.StackOne {
		t.Errorf("the name again changed the instance: %+v", w.Instance())
	}
}

func TestAPutNeedsNoCloudForItsParameters(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.Away = lifecycletest.Unreachable()
	other := lifecycletest.StackSpec("vnf-1")
	other.AdditionalParams = lifecycletest.Parameters("10.20.0.0/24")
	i := w.Put(other)
	if i.StackID != lifecycletest.StackOne || len(i.Nodes) != 3 || !lifecycletest.HasFault(i.Warnings, "/stackId", "Heat does not answer") || i.Stack.Status != "CREATE_COMPLETE" {
		t.Errorf("instance %+v (stack %+v), want it as it was with a warning", i, i.Stack)
	}
	if config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer); err != nil || config.Storage.Exports[0].Client != "10.20.0.0/24" {
		t.Errorf("the parameters are not in force: %+v, %v", config, err)
	}
	// What it says of servers would be half a topology.
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.WantRefused(err, api.ProblemCloudError, "Heat does not answer")
	c.Away = nil
	if i := w.Put(other); len(i.Warnings) != 0 {
		t.Errorf("warnings %v, want none any more", i.Warnings)
	}
}

func TestAPutWithoutAStackLeavesItAsItIsKnown(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"))
	if n := c.Asks(func() { w.Put(lifecycletest.Spec(nil)) }); n != 0 || len(w.Instance().Nodes) != 3 {
		t.Errorf("the cloud was asked %d times, nodes %v; want the three as before", n, w.Instance().Nodes)
	}
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	if nodes := w.Instance().Nodes; !slices.Equal(nodes, []string{lifecycletest.MasterServer}) {
		t.Errorf("nodes %v, want those that the stack has", nodes)
	}
}

func TestFaultsOfWhatHeatSaysStandAtTheStack(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"))
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.StackSpec(lifecycletest.StackOne))
	w.WantRefused(err, api.ProblemInvalid, "/stackId: storage", "second storage server")
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"))
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemInvalid, "/stackId: storage")
}
