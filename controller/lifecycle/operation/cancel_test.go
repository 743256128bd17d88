package operation_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An operator is never stuck, not behind a restore either.
func TestAnOperationOfAnInstanceThatIsNotConfirmedIsCancelled(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	start := w.Post(lifecycletest.ShrinkingStart())
	w.Restore()
	w.MustCancel(start)
	if got := w.Instance().Nodes; len(got) != 3 {
		t.Errorf("nodes %v, want all three again", got)
	}
}

func TestWhatCannotBeCancelled(t *testing.T) {
	terminated := func(w *lifecycletest.World) api.Operation {
		return w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
	}
	for name, c := range map[string]struct {
		made    func(*lifecycletest.World) api.Operation
		problem string
		says    string
	}{
		"an END that is COMPLETED": {func(w *lifecycletest.World) api.Operation { return w.Operations()[0] }, api.ProblemConflict, "is over: it is COMPLETED"},
		"one that was cancelled": {func(w *lifecycletest.World) api.Operation {
			op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
			w.MustCancel(op)
			return op
		}, api.ProblemConflict, "is over: it is FAILED"},
		"a START that awaits no END": {func(w *lifecycletest.World) api.Operation { return w.Post(scaleInStart()) }, api.ProblemConflict, "is over: it is COMPLETED"},
		"a START whose END has come": {func(w *lifecycletest.World) api.Operation { return ended(w, w.Post(lifecycletest.ShrinkingStart())) }, api.ProblemConflict, "is over: it is COMPLETED"},
		"a TERMINATE":                {terminated, api.ProblemConflict, "TERMINATE cannot be cancelled"},
		"a TERMINATE START that awaits its END": {func(w *lifecycletest.World) api.Operation {
			r := lifecycletest.Request(api.Terminate, api.PhaseStart)
			r.Topology = lifecycletest.HealedTopology(lifecycletest.UUID(1, 2))
			return w.Post(r)
		}, api.ProblemConflict, "TERMINATE cannot be cancelled"},
		"one that never was": {func(*lifecycletest.World) api.Operation { return api.Operation{Sequence: 70} }, api.ProblemNotFound, "has no operation 70"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Instantiated(t)
			op := c.made(w)
			wrote := w.Writes(func() {
				_, err := w.Cancel(op)
				w.WantRefused(err, c.problem, c.says)
			})
			if wrote {
				t.Error("what was refused wrote to the store")
			}
		})
	}
}

// ended posts the END of a ShrinkingStart.
func ended(w *lifecycletest.World, start api.Operation) api.Operation {
	w.Helper()
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
	return start
}
