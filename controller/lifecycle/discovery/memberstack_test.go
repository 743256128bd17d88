package discovery_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Only the START saw in which nested stack the server was.
func TestAServerWhoseNestedStackLeavesIsNotAdded(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.MemberTopology()
	w.Post(lifecycletest.ScaleInStart(lifecycletest.MemberStack))
	gone := lifecycletest.FullTopology()
	gone.StackID = lifecycletest.StackOne
	w.Put(lifecycletest.Spec(gone))
	for i := range c.Stacks[lifecycletest.StackOne].Servers {
		c.Stacks[lifecycletest.StackOne].Servers[i].MemberStackID = ""
	}
	w.WantRefused(w.Enroll(lifecycletest.SecondWorker), api.ProblemServerNotExpected)
}
