package discovery_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Only the START saw in which nested stack the server was.
func TestAServerWhoseNestedStackLeavesIsNotAdded(t *testing.T) {
	w, c := lcmtest.Created(t)
	c.Stacks[lcmtest.StackOne] = lcmtest.MemberTopology()
	w.Post(lcmtest.ScaleInStart(lcmtest.MemberStack))
	gone := lcmtest.FullTopology()
	gone.StackID = lcmtest.StackOne
	w.Put(lcmtest.Spec(gone))
	for i := range c.Stacks[lcmtest.StackOne].Servers {
		c.Stacks[lcmtest.StackOne].Servers[i].MemberStackID = ""
	}
	w.WantRefused(w.Enroll(lcmtest.SecondWorker), api.ProblemServerNotExpected)
}
