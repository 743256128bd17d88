package stack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What was asked for an older desired state does not come into force over a newer one.
func TestAnAnswerThatWasOvertakenIsAskedForAgain(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.Stacks[lifecycletest.StackTwo] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))
	c.Meanwhile = func() { w.Put(lifecycletest.StackSpec(lifecycletest.StackTwo)) }
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.WorkerServer))
	if op.StackID != lifecycletest.StackTwo || w.Instance().StackID != lifecycletest.StackTwo || !slices.Contains(w.Instance().Nodes, lifecycletest.UUID(1, 2)) {
		t.Errorf("HEAL END of %s, instance %+v; want both of the newer stack", op.StackID, w.Instance())
	}
	w.Converge(lifecycletest.UUID(1, 2), lifecycletest.WorkerServer)

	// An observation that saw less than a newer one, by which nothing changed.
	was := c.Stacks[lifecycletest.StackTwo]
	c.Stacks[lifecycletest.StackTwo] = lifecycletest.TopologyOf(was.Servers[1:]...)
	c.Meanwhile = func() {
		c.Stacks[lifecycletest.StackTwo] = was
		w.Put(lifecycletest.StackSpec(lifecycletest.StackTwo))
	}
	w.Put(lifecycletest.StackSpec(lifecycletest.StackTwo))
	if nodes := w.Instance().Nodes; !slices.Contains(nodes, lifecycletest.UUID(1, 2)) {
		t.Errorf("nodes %v; an older observation took the storage server away", nodes)
	}

	c.Meanwhile = busy(w, c, 100)
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.StackSpec(lifecycletest.StackTwo))
	w.WantRefused(err, api.ProblemUnavailable, "send the request again")
}

// busy changes the instance while the cloud is asked, so many times.
func busy(w *lifecycletest.World, c *lifecycletest.Cloud, times int) func() {
	return func() {
		other := lifecycletest.Spec(nil)
		other.AdditionalParams = lifecycletest.Parameters("10." + strings.Repeat("1", 1+times%2) + ".0.0/16")
		w.Put(other)
		if times > 0 {
			c.Meanwhile = busy(w, c, times-1)
		}
	}
}
