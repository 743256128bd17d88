package lcm_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// operator is who cancels in these tests.
const operator = "token night shift"

func (w *world) cancel(op api.Operation) (api.Operation, error) {
	w.Helper()
	return w.LCM.Operations.CancelOperation(w.ctx, instanceID, op.Sequence, operator)
}

// cancelled wants the operation to be cancelled now.
func (w *world) cancelled(op api.Operation, says ...string) {
	w.Helper()
	answer, err := w.cancel(op)
	w.must(err)
	for _, got := range []api.Operation{answer, w.operation(op.ID)} {
		if got.ID != op.ID || got.State != api.Failed || got.FinishedAt == nil || got.CancelledBy != operator {
			w.Errorf("the operation is %+v, want it FAILED, cancelled by %s", got, operator)
		}
		w.refused(got.Error, api.ProblemCancelled, append(says, operator+" cancelled it")...)
	}
}

func TestACancelledEndOnlyStopsWaiting(t *testing.T) {
	w := instantiated(t)
	replacement := uuid(1, 2)
	end := w.post(heal(api.PhaseEnd, healed(replacement), storageServer))
	version := w.instance().DesiredVersion
	changed, stop := w.Hub.Watch(end.ID)
	defer stop()
	w.cancelled(end, "storage ("+replacement+"): NotEnrolled")
	w.restart()
	if !woken(changed) {
		t.Error("a client that waits for the operation was not woken")
	}
	if i := w.instance(); i.DesiredVersion != version || i.Nodes[0] != replacement {
		t.Errorf("version %d is in force with %v, want the END's %d", i.DesiredVersion, i.Nodes, version)
	}
	if n := w.node(storageServer); n.State != api.NodeRevoked {
		t.Errorf("the server that the END retired is %s", n.State)
	}
	again := w.post(heal(api.PhaseEnd, healed(replacement), storageServer))
	if len(again.Targets) != 1 || again.Targets[0].NodeID != replacement {
		t.Errorf("posted again it waits for %+v, want what it waited for before", again.Targets)
	}
	w.converge(replacement)
	w.wantState(again, api.Completed)
	w.wantState(end, api.Failed)
}

func TestACancelledWithdrawalIsTakenBack(t *testing.T) {
	for name, before := range map[string]func(*world){"in progress": func(*world) {}, "that awaits its END": (*world).absent} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			version := w.instance().DesiredVersion
			start := w.post(heal(api.PhaseStart, nil, storageServer))
			before(w)
			w.wantSection(masterServer, api.PersistentVolumesAbsent)
			w.cancelled(start, "the previous desired state is in force again")
			w.wantSection(masterServer, api.PersistentVolumesPresent)
			if got := w.instance().DesiredVersion; got != version {
				t.Errorf("version %d is in force, want %d", got, version)
			}
			w.restart()
			w.Clock.Advance(time.Hour) // past its deadline
			w.must(w.LCM.Sweep(w.ctx))
			w.refused(w.wantState(start, api.Failed).Error, api.ProblemCancelled)
		})
	}
}

func TestACancelledStartLeavesANewerPutInForce(t *testing.T) {
	w := instantiated(t)
	start := w.post(shrunkStart())
	version := w.put(exported(20)).DesiredVersion
	w.cancelled(start, "a newer version of the desired state is in force and stays")
	if got := w.instance().DesiredVersion; got != version {
		t.Errorf("version %d is in force, want the PUT's %d", got, version)
	}
}

// An operator is never stuck, not behind a restore either.
func TestAnOperationOfAnInstanceThatIsNotConfirmedIsCancelled(t *testing.T) {
	w := instantiated(t)
	start := w.post(shrunkStart())
	w.restored()
	w.cancelled(start)
	if got := w.instance().Nodes; len(got) != 3 {
		t.Errorf("nodes %v, want all three again", got)
	}
}

func TestWhatCannotBeCancelled(t *testing.T) {
	terminated := func(w *world) api.Operation { return w.post(request(api.Terminate, api.PhaseEnd)) }
	for name, c := range map[string]struct {
		made    func(*world) api.Operation
		problem string
		says    string
	}{
		"an END that is COMPLETED": {func(w *world) api.Operation { return w.operations()[0] }, api.ProblemConflict, "is over: it is COMPLETED"},
		"one that was cancelled": {func(w *world) api.Operation {
			op := w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
			w.cancelled(op)
			return op
		}, api.ProblemConflict, "is over: it is FAILED"},
		"a START that awaits no END": {func(w *world) api.Operation { return w.post(scaleInStart()) }, api.ProblemConflict, "is over: it is COMPLETED"},
		"a START whose END has come": {func(w *world) api.Operation { return w.ended(w.post(shrunkStart())) }, api.ProblemConflict, "is over: it is COMPLETED"},
		"a TERMINATE":                {terminated, api.ProblemConflict, "TERMINATE cannot be cancelled"},
		"a TERMINATE START that awaits its END": {func(w *world) api.Operation {
			r := request(api.Terminate, api.PhaseStart)
			r.Topology = healed(uuid(1, 2))
			return w.post(r)
		}, api.ProblemConflict, "TERMINATE cannot be cancelled"},
		"one that never was": {func(*world) api.Operation { return api.Operation{Sequence: 70} }, api.ProblemNotFound, "has no operation 70"},
	} {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			op := c.made(w)
			wrote := w.writes(func() {
				_, err := w.cancel(op)
				w.refused(err, c.problem, c.says)
			})
			if wrote {
				t.Error("what was refused wrote to the store")
			}
		})
	}
}

// ended posts the END of the START of shrunkStart.
func (w *world) ended(start api.Operation) api.Operation {
	w.Helper()
	w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
	return start
}
