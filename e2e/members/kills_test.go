package members

import (
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
)

// kills is what is killed while operations are in progress.
type kills struct {
	// agents are killed at the begin and the end of each of their actions.
	agents bool
	// controller is killed when an operation is on record, and when its nodes make progress.
	controller bool
	times      int
}

func (k *kills) none() bool { return !k.agents && !k.controller }

// most is how often the controller is killed in one operation, which has to end.
const most = 5

var progress = regexp.MustCompile(`^(operation |) *(\+\S+|\S+/\d+)  ?`)

// during is told of the lines of hitchctl operate and kills the controller.
func (k *kills) during(w *world) func(line string) {
	last, times := "", 0
	return func(line string) {
		found := progress.FindString(line)
		if !k.controller || found == "" || found == last || times == most {
			return
		}
		last = found
		times++
		if err := errors.Join(w.Kill(), w.Start(w.t.Context())); err != nil {
			w.t.Error(err)
		}
		k.times++
	}
}

// watch kills the agent of a machine at each of its actions, until over.
func (k *kills) watch(t *testing.T, m *machine) {
	t.Helper()
	if !k.agents || m.killer != nil {
		return
	}
	killer, err := site.StartKiller(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	m.killer = killer
}

// over ends the kills of a case. A case without one has shown nothing.
func (k *kills) over(w *world, r *results.Case) {
	w.t.Helper()
	if k.none() {
		return
	}
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		if m.killer == nil {
			continue
		}
		moments, err := m.killer.Stop(w.t.Context())
		if err != nil {
			w.t.Errorf("%s: %v", m.Name(), err)
		}
		k.times += len(moments)
		m.killer = nil
	}
	r.Figure("killed", "%d times", k.times)
	if k.times == 0 {
		w.t.Error("nothing was killed")
	}
	k.times = 0
}

// again starts to kill the agents that are up, for the next case.
func (k *kills) again(w *world) {
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		k.watch(w.t, m)
	}
}
