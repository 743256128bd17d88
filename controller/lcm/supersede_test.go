package lcm_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTerminateSupersedesWhatIsNotOver(t *testing.T) {
	const kept = "; the previous desired state is in force again"
	for name, c := range map[string]struct {
		made func(*world) api.Operation
		says string
	}{
		"an END":       {func(w *world) api.Operation { return w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer)) }, "not ready: storage ("},
		"a withdrawal": {func(w *world) api.Operation { return w.post(heal(api.PhaseStart, nil, storageServer)) }, kept},
		"one that awaits its END": {func(w *world) api.Operation {
			op := w.post(heal(api.PhaseStart, nil, storageServer))
			w.absent()
			return op
		}, kept},
		"a START that awaits its END": {func(w *world) api.Operation { return w.post(scale(api.ScaleOut, api.PhaseStart, grown())) }, kept},
	} {
		for phase, named := range map[api.OperationPhase]string{api.PhaseStart: "TERMINATE START", api.PhaseEnd: "TERMINATE"} {
			t.Run(name+" by "+string(phase), func(t *testing.T) {
				w := registered(t)
				op := c.made(w)
				terminate := w.post(request(api.Terminate, phase))
				w.wantState(terminate, api.Completed)
				w.refused(w.wantState(op, api.Failed).Error, api.ProblemSuperseded, "operation "+terminate.ID+" ("+named+") superseded it", c.says)
				if phase == api.PhaseEnd {
					if i := w.instance(); i.State != api.NotInstantiated || len(i.Nodes) != 0 {
						t.Errorf("the instance is %s with nodes %v", i.State, i.Nodes)
					}
				} else if op.Phase == api.PhaseStart {
					w.wantSection(masterServer, api.PersistentVolumesPresent)
				}
			})
		}
	}
}

func TestASecondTerminateJoinsTheFirst(t *testing.T) {
	w := instantiated(t)
	start, again := request(api.Terminate, api.PhaseStart), request(api.Terminate, api.PhaseStart)
	again.IdempotencyKey, again.DeadlineSeconds = "another client's", 60
	first := w.post(start)
	if second := w.post(again); second.ID != first.ID || !second.Joined || !second.Deadline.Equal(first.Deadline) {
		t.Errorf("a second TERMINATE START is %+v, want it to join %+v", second, first)
	}
	w.Clock.Advance(time.Hour)
	late := w.post(start)
	if late.ID == first.ID || late.Joined {
		t.Errorf("after its deadline the first is joined: %+v", late)
	}
	end := w.post(request(api.Terminate, api.PhaseEnd))
	if end.Joined || end.Phase != api.PhaseEnd {
		t.Errorf("TERMINATE END is %+v, want one of its own", end)
	}
	if second := w.post(request(api.Terminate, api.PhaseEnd)); second.ID != end.ID || !second.Joined {
		t.Errorf("a second TERMINATE END is %+v, want it to join %s", second, end.ID)
	}
	w.put(spec(full())) // something to end again
	if anew := w.post(request(api.Terminate, api.PhaseEnd)); anew.Joined || len(w.instance().Nodes) != 0 {
		t.Errorf("TERMINATE END after a PUT is %+v and leaves the nodes %v", anew, w.instance().Nodes)
	}
}

// A request that comes again after TERMINATE, from a client that lost its answer or a hook
// that hung, begins nothing, however its operation ended.
func TestALateRepeatAfterTerminateBeginsNothing(t *testing.T) {
	end, start := request(api.Instantiate, api.PhaseEnd), request(api.Instantiate, api.PhaseStart)
	end.Topology, start.Topology = full(), full()
	for name, c := range map[string]struct {
		r    api.OperationRequest
		then func(*world, api.Operation)
		ends api.OperationState
	}{
		"an END in progress":          {end, func(*world, api.Operation) {}, api.Failed},
		"a START that awaits its END": {start, func(*world, api.Operation) {}, api.Failed},
		"an END that was cancelled":   {end, func(w *world, op api.Operation) { w.cancelled(op) }, api.Failed},
		"an END whose deadline has passed": {end, func(w *world, _ api.Operation) {
			w.Clock.Advance(time.Hour)
			w.must(w.LCM.Sweep(w.ctx))
		}, api.Failed},
		"an END of before a restore": {end, func(w *world, _ api.Operation) {
			w.converge(storageServer, masterServer, workerServer)
			w.restored()
		}, api.Completed},
	} {
		for _, phase := range []api.OperationPhase{api.PhaseStart, api.PhaseEnd} {
			t.Run(name+", TERMINATE "+string(phase), func(t *testing.T) {
				w := newWorld(t)
				w.put(spec(nil))
				w.upload(script, "#!/bin/sh\n")
				c.r.IdempotencyKey = "occurrence-1"
				op := w.post(c.r)
				c.then(w, op)
				w.post(request(api.Terminate, phase))
				before := w.instance()
				repeat := w.post(c.r)
				if repeat.ID != op.ID || !repeat.Joined || repeat.State != c.ends {
					t.Errorf("the key gives %+v, want %s as it ended", repeat, op.ID)
				}
				if after := w.instance(); after.DesiredVersion != before.DesiredVersion || len(w.operations()) != 2 {
					t.Errorf("the repeat left version %d, was %d, and %d operations", after.DesiredVersion, before.DesiredVersion, len(w.operations()))
				}
			})
		}
	}
}

func TestAJoinedOperationIsThatOfTheFirstRequest(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	r := request(api.Instantiate, api.PhaseEnd)
	r.IdempotencyKey, r.DeadlineSeconds = "occurrence-1", 3600
	first := w.post(r)
	r.DeadlineSeconds, r.Topology = 60, topologyOf(server(uuid(1, 2), "storage"))
	joined := w.post(r)
	if first.Joined || !joined.Joined || !joined.Deadline.Equal(first.Deadline) || len(joined.Targets) != 3 {
		t.Errorf("joined %+v, want the first operation %+v", joined, first)
	}
	if w.operation(first.ID).Joined {
		t.Error("the record says that it was joined")
	}
}
