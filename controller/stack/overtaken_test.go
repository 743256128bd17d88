package stack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What was asked for an older desired state does not come into force over a newer one.
func TestAnAnswerThatWasOvertakenIsAskedForAgain(t *testing.T) {
	w, c := lcmtest.Created(t)
	c.Stacks[lcmtest.StackTwo] = lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(1, 2), "storage"), lcmtest.Server(lcmtest.MasterServer, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker"))
	c.Meanwhile = func() { w.Put(lcmtest.StackSpec(lcmtest.StackTwo)) }
	op := w.Post(lcmtest.Heal(api.PhaseEnd, nil, lcmtest.WorkerServer))
	if op.StackID != lcmtest.StackTwo || w.Instance().StackID != lcmtest.StackTwo || !slices.Contains(w.Instance().Nodes, lcmtest.UUID(1, 2)) {
		t.Errorf("HEAL END of %s, instance %+v; want both of the newer stack", op.StackID, w.Instance())
	}
	w.Converge(lcmtest.UUID(1, 2), lcmtest.WorkerServer)

	// An observation that saw less than a newer one, by which nothing changed.
	was := c.Stacks[lcmtest.StackTwo]
	c.Stacks[lcmtest.StackTwo] = lcmtest.TopologyOf(was.Servers[1:]...)
	c.Meanwhile = func() {
		c.Stacks[lcmtest.StackTwo] = was
		w.Put(lcmtest.StackSpec(lcmtest.StackTwo))
	}
	w.Put(lcmtest.StackSpec(lcmtest.StackTwo))
	if nodes := w.Instance().Nodes; !slices.Contains(nodes, lcmtest.UUID(1, 2)) {
		t.Errorf("nodes %v; an older observation took the storage server away", nodes)
	}

	c.Meanwhile = busy(w, c, 100)
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.StackSpec(lcmtest.StackTwo))
	w.WantRefused(err, api.ProblemUnavailable, "send the request again")
}

// busy changes the instance while the cloud is asked, so many times.
func busy(w *lcmtest.World, c *lcmtest.Cloud, times int) func() {
	return func() {
		other := lcmtest.Spec(nil)
		other.AdditionalParams = lcmtest.Parameters("10." + strings.Repeat("1", 1+times%2) + ".0.0/16")
		w.Put(other)
		if times > 0 {
			c.Meanwhile = busy(w, c, times-1)
		}
	}
}
