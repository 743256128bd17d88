package operation_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAnEndWaitsForHeatWithoutARecord(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(lifecycletest.UUID(1, 2))
	c.SetStatus(lifecycletest.StackOne, "UPDATE_IN_PROGRESS", "Stack UPDATE started")
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer))
	changed, stop := w.Hub.Watch(notify.Instances)
	defer stop()
	c.SetStatus(lifecycletest.StackOne, "UPDATE_IN_PROGRESS", "Stack UPDATE goes on")
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	if !lifecycletest.Woken(changed) {
		t.Error("who watches the instances was not told of what Heat is at")
	}
	if w.Writes(func() {
		_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	}) {
		t.Error("the END that was refused was written")
	}
	w.WantRefused(err, api.ProblemStackInProgress, "vnf-1 ("+lifecycletest.StackOne+")", "UPDATE_IN_PROGRESS", "Stack UPDATE goes on")
	if i := w.Instance(); i.Stack.Status != "UPDATE_IN_PROGRESS" || len(w.Operations()) != 3 {
		t.Errorf("stack %+v, %d operations; want it seen in progress, and no operation for it", i.Stack, len(w.Operations()))
	}
	c.SetStatus(lifecycletest.StackOne, "UPDATE_COMPLETE", "")
	if op := w.Post(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.WorkerServer)); op.State != api.Processing {
		t.Errorf("HEAL END is %+v", op)
	}
}

func TestWhoWaitsForHeatHasEverythingElseReady(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	c.SetStatus(lifecycletest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemFilesMissing, lifecycletest.ScriptFile)
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, nil))
	w.WantRefused(err, api.ProblemConflict, "NOT_INSTANTIATED")
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemStackInProgress, "stack "+lifecycletest.StackOne+" is CREATE_IN_PROGRESS", "Heat gave no reason")
}

func TestAnEndOfAStackThatIsGone(t *testing.T) {
	w, c := lifecycletest.Created(t)
	for name, break_ := range map[string]func(){
		"no such stack": func() { delete(c.Stacks, lifecycletest.StackOne) },
		"deleted": func() {
			c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			c.SetStatus(lifecycletest.StackOne, "DELETE_COMPLETE", "")
		},
		"being deleted": func() {
			c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			c.SetStatus(lifecycletest.StackOne, "DELETE_IN_PROGRESS", "")
		},
	} {
		break_()
		if w.Writes(func() {
			_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, nil))
			w.WantRefused(err, api.ProblemStackGone, lifecycletest.StackOne)
		}) {
			t.Errorf("%s: the END was written", name)
		}
		if op := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer)); op.State != api.Completed || !lifecycletest.HasFault(op.Warnings, "/stackId", "the servers known before stay") {
			t.Errorf("%s: HEAL START is %+v, want COMPLETED with a warning", name, op)
		}
		if nodes := w.Instance().Nodes; len(nodes) != 3 {
			t.Errorf("%s: nodes %v, want all as before", name, nodes)
		}
	}
	c.Away = lifecycletest.Unreachable()
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, nil))
	w.WantRefused(err, api.ProblemCloudError, "Heat does not answer")
}

func TestTerminateAsksNoCloud(t *testing.T) {
	w, c := lifecycletest.Created(t)
	delete(c.Stacks, lifecycletest.StackOne)
	c.Away = lifecycletest.Unreachable()
	asked := c.Asks(func() {
		w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
		if op := w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)); op.State != api.Completed || op.StackID != lifecycletest.StackOne {
			t.Errorf("TERMINATE END is %+v", op)
		}
	})
	if i := w.Instance(); asked != 0 || i.StackID != "" || i.Stack != nil || len(i.Nodes) != 0 {
		t.Errorf("the cloud was asked %d times, and the instance is %+v", asked, i)
	}
}

func TestARequestThatHeatDoesNotChangeDoesNotAskIt(t *testing.T) {
	w, c := lifecycletest.Created(t)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	c.Stacks[lifecycletest.StackOne] = grown
	end := lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil)
	end.IdempotencyKey = "occurrence-1"
	var op api.Operation
	if n := c.Asks(func() { op = w.Post(end) }); n != 1 || !slices.Equal(completion.TargetIDs(op.Targets), []string{lifecycletest.UUID(3, 2)}) {
		t.Fatalf("asked %d times, operation %+v", n, op)
	}
	c.Away = lifecycletest.Unreachable()
	asked := c.Asks(func() {
		if again := w.Post(end); again.ID != op.ID || again.State != api.Processing {
			t.Errorf("the key of the running operation gives %+v", again)
		}
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, nil))
		w.WantRefused(err, api.ProblemOperationInProgress)
		w.Converge(lifecycletest.UUID(3, 2))
		if again := w.Post(end); again.ID != op.ID || again.State != api.Completed {
			t.Errorf("the key of the completed operation gives %+v", again)
		}
	})
	if asked != 0 {
		t.Errorf("the cloud was asked %d times", asked)
	}
}

func TestAnEntireHealTakesTheNewStackFromHeat(t *testing.T) {
	w, c := lifecycletest.Created(t)
	ids := []string{lifecycletest.UUID(1, 2), lifecycletest.UUID(2, 2), lifecycletest.UUID(3, 2)}
	w.Post(lifecycletest.Heal(api.PhaseStart, nil))
	c.SetStatus(lifecycletest.StackOne, "DELETE_COMPLETE", "")
	c.Stacks[lifecycletest.StackTwo] = lifecycletest.TopologyOf(lifecycletest.Server(ids[0], "storage"), lifecycletest.Server(ids[1], "master"), lifecycletest.Server(ids[2], "worker"))
	end := lifecycletest.Heal(api.PhaseEnd, nil)
	end.StackID = lifecycletest.StackTwo
	op := w.Post(end)
	if !slices.Equal(completion.TargetIDs(op.Targets), ids) || op.StackID != lifecycletest.StackTwo {
		t.Errorf("HEAL END is %+v, want the three new servers of the second stack", op)
	}
	w.Converge(ids...)
	if got := w.Operation(op.ID); got.State != api.Completed || w.Instance().StackID != lifecycletest.StackTwo {
		t.Errorf("HEAL END is %+v of stack %s", got, w.Instance().StackID)
	}
}
