package operation_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTerminateSupersedesWhatIsNotOver(t *testing.T) {
	const kept = "; the previous desired state is in force again"
	for name, c := range map[string]struct {
		made func(*lifecycletest.World) api.Operation
		says string
	}{
		"an END": {func(w *lifecycletest.World) api.Operation {
			return w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
		}, "not ready: storage ("},
		"a withdrawal": {func(w *lifecycletest.World) api.Operation {
			return w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
		}, kept},
		"one that awaits its END": {func(w *lifecycletest.World) api.Operation {
			op := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
			w.ReportAbsent()
			return op
		}, kept},
		"a START that awaits its END": {func(w *lifecycletest.World) api.Operation {
			return w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseStart, lifecycletest.GrownTopology()))
		}, kept},
	} {
		for phase, named := range map[api.OperationPhase]string{api.PhaseStart: "TERMINATE START", api.PhaseEnd: "TERMINATE"} {
			t.Run(name+" by "+string(phase), func(t *testing.T) {
				w := lifecycletest.Registered(t)
				op := c.made(w)
				terminate := w.Post(lifecycletest.Request(api.Terminate, phase))
				w.WantState(terminate, api.Completed)
				w.WantRefused(w.WantState(op, api.Failed).Error, api.ProblemSuperseded, "operation "+terminate.ID+" ("+named+") superseded it", c.says)
				if phase == api.PhaseEnd {
					if i := w.Instance(); i.State != api.NotInstantiated || len(i.Nodes) != 0 {
						t.Errorf("the instance is %s with nodes %v", i.State, i.Nodes)
					}
				} else if op.Phase == api.PhaseStart {
					w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
				}
			})
		}
	}
}

func TestASecondTerminateJoinsTheFirst(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	start, again := lifecycletest.Request(api.Terminate, api.PhaseStart), lifecycletest.Request(api.Terminate, api.PhaseStart)
	again.IdempotencyKey, again.DeadlineSeconds = "another client's", 60
	first := w.Post(start)
	if second := w.Post(again); second.ID != first.ID || !second.Joined || !second.Deadline.Equal(first.Deadline) {
		t.Errorf("a second TERMINATE START is %+v, want it to join %+v", second, first)
	}
	w.Clock.Advance(time.Hour)
	late := w.Post(start)
	if late.ID == first.ID || late.Joined {
		t.Errorf("after its deadline the first is joined: %+v", late)
	}
	end := w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
	if end.Joined || end.Phase != api.PhaseEnd {
		t.Errorf("TERMINATE END is %+v, want one of its own", end)
	}
	if second := w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)); second.ID != end.ID || !second.Joined {
		t.Errorf("a second TERMINATE END is %+v, want it to join %s", second, end.ID)
	}
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology())) // something to end again
	if anew := w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)); anew.Joined || len(w.Instance().Nodes) != 0 {
		t.Errorf("TERMINATE END after a PUT is %+v and leaves the nodes %v", anew, w.Instance().Nodes)
	}
}

// A request that comes again after TERMINATE, from a client that lost its answer or a hook
// that hung, begins nothing, however its operation ended.
func TestALateRepeatAfterTerminateBeginsNothing(t *testing.T) {
	end, start := lifecycletest.Request(api.Instantiate, api.PhaseEnd), lifecycletest.Request(api.Instantiate, api.PhaseStart)
	end.Topology, start.Topology = lifecycletest.FullTopology(), lifecycletest.FullTopology()
	for name, c := range map[string]struct {
		r    api.OperationRequest
		then func(*lifecycletest.World, api.Operation)
		ends api.OperationState
	}{
		"an END in progress":          {end, func(*lifecycletest.World, api.Operation) {}, api.Failed},
		"a START that awaits its END": {start, func(*lifecycletest.World, api.Operation) {}, api.Failed},
		"an END that was cancelled":   {end, func(w *lifecycletest.World, op api.Operation) { w.MustCancel(op) }, api.Failed},
		"an END whose deadline has passed": {end, func(w *lifecycletest.World, _ api.Operation) {
			w.Clock.Advance(time.Hour)
			w.Must(w.Lifecycle.Sweep(w.Ctx))
		}, api.Failed},
		"an END of before a restore": {end, func(w *lifecycletest.World, _ api.Operation) {
			w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
			w.Restore()
		}, api.Completed},
	} {
		for _, phase := range []api.OperationPhase{api.PhaseStart, api.PhaseEnd} {
			t.Run(name+", TERMINATE "+string(phase), func(t *testing.T) {
				w := lifecycletest.New(t)
				w.Put(lifecycletest.Spec(nil))
				w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
				c.r.IdempotencyKey = "occurrence-1"
				op := w.Post(c.r)
				c.then(w, op)
				w.Post(lifecycletest.Request(api.Terminate, phase))
				before := w.Instance()
				repeat := w.Post(c.r)
				if repeat.ID != op.ID || !repeat.Joined || repeat.State != c.ends {
					t.Errorf("the key gives %+v, want %s as it ended", repeat, op.ID)
				}
				if after := w.Instance(); after.DesiredVersion != before.DesiredVersion || len(w.Operations()) != 2 {
					t.Errorf("the repeat left version %d, was %d, and %d operations", after.DesiredVersion, before.DesiredVersion, len(w.Operations()))
				}
			})
		}
	}
}

func TestAJoinedOperationIsThatOfTheFirstRequest(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.IdempotencyKey, r.DeadlineSeconds = "occurrence-1", 3600
	first := w.Post(r)
	r.DeadlineSeconds, r.Topology = 60, lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"))
	joined := w.Post(r)
	if first.Joined || !joined.Joined || !joined.Deadline.Equal(first.Deadline) || len(joined.Targets) != 3 {
		t.Errorf("joined %+v, want the first operation %+v", joined, first)
	}
	if w.Operation(first.ID).Joined {
		t.Error("the record says that it was joined")
	}
}
