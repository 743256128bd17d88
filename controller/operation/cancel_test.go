package operation_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An operator is never stuck, not behind a restore either.
func TestAnOperationOfAnInstanceThatIsNotConfirmedIsCancelled(t *testing.T) {
	w := lcmtest.Instantiated(t)
	start := w.Post(lcmtest.ShrinkingStart())
	w.Restore()
	w.MustCancel(start)
	if got := w.Instance().Nodes; len(got) != 3 {
		t.Errorf("nodes %v, want all three again", got)
	}
}

func TestWhatCannotBeCancelled(t *testing.T) {
	terminated := func(w *lcmtest.World) api.Operation { return w.Post(lcmtest.Request(api.Terminate, api.PhaseEnd)) }
	for name, c := range map[string]struct {
		made    func(*lcmtest.World) api.Operation
		problem string
		says    string
	}{
		"an END that is COMPLETED": {func(w *lcmtest.World) api.Operation { return w.Operations()[0] }, api.ProblemConflict, "is over: it is COMPLETED"},
		"one that was cancelled": {func(w *lcmtest.World) api.Operation {
			op := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer))
			w.MustCancel(op)
			return op
		}, api.ProblemConflict, "is over: it is FAILED"},
		"a START that awaits no END": {func(w *lcmtest.World) api.Operation { return w.Post(scaleInStart()) }, api.ProblemConflict, "is over: it is COMPLETED"},
		"a START whose END has come": {func(w *lcmtest.World) api.Operation { return ended(w, w.Post(lcmtest.ShrinkingStart())) }, api.ProblemConflict, "is over: it is COMPLETED"},
		"a TERMINATE":                {terminated, api.ProblemConflict, "TERMINATE cannot be cancelled"},
		"a TERMINATE START that awaits its END": {func(w *lcmtest.World) api.Operation {
			r := lcmtest.Request(api.Terminate, api.PhaseStart)
			r.Topology = lcmtest.HealedTopology(lcmtest.UUID(1, 2))
			return w.Post(r)
		}, api.ProblemConflict, "TERMINATE cannot be cancelled"},
		"one that never was": {func(*lcmtest.World) api.Operation { return api.Operation{Sequence: 70} }, api.ProblemNotFound, "has no operation 70"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Instantiated(t)
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
func ended(w *lcmtest.World, start api.Operation) api.Operation {
	w.Helper()
	w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer))
	return start
}
