package tacker

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestASlowCloud takes longer to show the stack than the driver waits for the controller to end
// an operation.
func TestASlowCloud(t *testing.T) {
	results.Begin(t, suite, "cloud-slow", "the time in which a slow cloud shows the stack is not part of the operation's deadline: the text says that it has passed, and which node was not ready")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.instantiateStart()
	v.heat("CREATE_COMPLETE")
	for _, s := range v.servers() {
		s.node = &node{stop: func() {}} // no VM boots
	}
	for _, call := range []string{openstacktest.Stacks, openstacktest.Resources} {
		w.cloud.Fail(call, openstacktest.Fault{Delay: 4 * time.Second})
	}
	w.configure(map[string]string{"deadline": "2"})
	v.call("instantiate_end", v.instantiateRequest(), nil).raises("the deadline has passed", "workerNode ("+v.workers[0].id+"): NotEnrolled")
}
