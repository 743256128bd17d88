package operation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAnEntireHealReplacesEveryServerAndTheStack(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	ids := []string{lifecycletest.UUID(1, 2), lifecycletest.UUID(2, 2), lifecycletest.UUID(3, 2)}
	fresh := lifecycletest.TopologyOf(lifecycletest.Server(ids[0], "storage"), lifecycletest.Server(ids[1], "master"), lifecycletest.Server(ids[2], "worker"))
	fresh.StackID = lifecycletest.StackTwo
	w.Post(lifecycletest.Heal(api.PhaseStart, nil))
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, fresh))
	if !slices.Equal(completion.TargetIDs(op.Targets), ids) {
		t.Errorf("targets %v, want all three new servers", op.Targets)
	}
	for _, id := range []string{lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		if n := w.Node(id); n.State != api.NodeRevoked {
			t.Errorf("%s (%s) is %s, want Revoked", n.Name, id, n.State)
		}
	}
	w.Converge(ids...)
	if got := w.Operation(op.ID); got.State != api.Completed || w.Instance().StackID != lifecycletest.StackTwo {
		t.Errorf("HEAL END is %+v of stack %s", got, w.Instance().StackID)
	}
}

func TestTerminateRevokesEverybody(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	if op := w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart)); op.State != api.Completed {
		t.Fatalf("TERMINATE START is %+v", op)
	}
	if n := w.Node(lifecycletest.WorkerServer); n.State != api.NodeEnrolled {
		t.Errorf("the worker is %s after TERMINATE START; its VM is still there", n.State)
	}
	if op := w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)); op.State != api.Completed || op.StackID != lifecycletest.StackOne {
		t.Fatalf("TERMINATE END is %+v", op)
	}
	i := w.Instance()
	if i.State != api.NotInstantiated || len(i.Nodes) != 0 || i.Topology != nil || i.StackID != "" {
		t.Errorf("instance %+v, want NOT_INSTANTIATED without nodes", i)
	}
	for _, id := range []string{lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		n := w.Node(id)
		if n.State != api.NodeRevoked {
			t.Errorf("%s is %s, want Revoked", n.Name, n.State)
		}
		w.WantRefused(w.Enroll(id), api.ProblemServerNotExpected)
	}
	// The parameters are kept: a new stack instantiates again.
	again := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	again.Topology, again.Partial = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage")), true
	op := w.Post(again)
	w.Converge(lifecycletest.UUID(1, 2))
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

func TestAStartWhoseEndDoesNotComeIsTakenBack(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	before := w.Instance()
	start := w.Post(lifecycletest.ShrinkingStart())
	if got := w.Instance(); len(got.Nodes) != 2 || got.DesiredVersion == before.DesiredVersion {
		t.Fatalf("the START's topology is not in force: %v", got.Nodes)
	}
	if n := w.Node(lifecycletest.WorkerServer); n.State != api.NodeEnrolled {
		t.Errorf("a START revoked the worker (%s)", n.State)
	}
	w.Clock.Advance(30 * time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	got := w.Operation(start.ID)
	if got.State != api.Failed {
		t.Fatalf("the START is %+v, want FAILED", got)
	}
	w.WantRefused(got.Error, api.ProblemInterrupted, "its END did not come", "the previous desired state is in force again")
	if after := w.Instance(); after.DesiredVersion != before.DesiredVersion || len(after.Nodes) != 3 {
		t.Errorf("version %d with nodes %v, want %d and all three", after.DesiredVersion, after.Nodes, before.DesiredVersion)
	}
	if w.Writes(func() { w.Must(w.Lifecycle.Sweep(w.Ctx)) }) {
		t.Error("a sweep with nothing to do wrote to the store")
	}
}

func TestAStartIsNotTakenBackWhen(t *testing.T) {
	status := lifecycletest.FullTopology()
	status.StackStatus = "UPDATE_COMPLETE"
	for name, c := range map[string]struct {
		start   api.OperationRequest
		between func(w *lifecycletest.World)
	}{
		"its END has come": {lifecycletest.ShrinkingStart(), func(w *lifecycletest.World) {
			w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
		}},
		"it changed nothing":  {lifecycletest.Heal(api.PhaseStart, status, lifecycletest.StorageServer), func(*lifecycletest.World) {}},
		"Tacker calls no END": {scaleInStart(), func(*lifecycletest.World) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Instantiated(t)
			start := w.Post(c.start)
			c.between(w)
			version := w.Instance().DesiredVersion
			w.Clock.Advance(time.Hour)
			w.Must(w.Lifecycle.Sweep(w.Ctx))
			if got := w.Operation(start.ID); got.State != api.Completed {
				t.Errorf("the START is %+v, want COMPLETED as before", got)
			}
			if got := w.Instance().DesiredVersion; got != version {
				t.Errorf("version %d is in force, want %d", got, version)
			}
		})
	}
}

// scaleInStart changes the desired state too: the worker is gone already.
func scaleInStart() api.OperationRequest {
	r := lifecycletest.Scale(api.ScaleIn, api.PhaseStart, lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master")))
	r.VnfcInstanceIds = []string{"vnfc-" + lifecycletest.WorkerServer}
	return r
}

func TestAnotherOperationTakesAnAbandonedStartBackFirst(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	start := w.Post(lifecycletest.ShrinkingStart())
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil))
	got := w.Operation(start.ID)
	w.WantRefused(got.Error, api.ProblemInterrupted, "SCALE_OUT START came before its END")
	if op.State != api.Completed || len(w.Instance().Nodes) != 3 {
		t.Errorf("nodes %v, want all three again", w.Instance().Nodes)
	}
}

func TestAnEndOfAFailedStackTakesAnAbandonedStartBackToo(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Post(lifecycletest.ShrinkingStart())
	broken := lifecycletest.FullTopology()
	broken.StackStatus = "UPDATE_FAILED"
	if op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, broken)); op.State != api.Failed {
		t.Fatalf("SCALE_OUT END is %+v, want FAILED", op)
	}
	if got := w.Instance().Nodes; len(got) != 3 {
		t.Errorf("nodes %v, want all three again", got)
	}
	if w.Writes(func() { w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, lifecycletest.InstanceID)) }) {
		t.Error("the nodes were not in line with the desired state in force")
	}
}

func TestARepeatedStartGoesBackToWhatWasBeforeTheFirst(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	before := w.Instance().DesiredVersion
	w.Post(lifecycletest.ShrinkingStart())
	w.Clock.Advance(time.Minute)
	second := w.Post(lifecycletest.ShrinkingStart())
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Instance().DesiredVersion; got != before || w.Operation(second.ID).State != api.Failed {
		t.Errorf("version %d is in force, want %d", got, before)
	}
}
