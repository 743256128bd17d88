package discovery_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The documents of the others change by its name and by nothing else.
func TestAWorkerThatCallsIsAddedToItsCluster(t *testing.T) {
	w, c := lcmtest.Created(t)
	w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.Parameters("10.10.0.0/24")}))
	for range 2 {
		w.Converge(w.Instance().Nodes...)
	}
	c.Stacks[lcmtest.StackOne] = lcmtest.GrownTopology()
	w.Must(w.Enroll(lcmtest.SecondWorker))
	if config := w.Document(lcmtest.MasterServer); !has(w, lcmtest.SecondWorker) || len(config.ClusterMembers.Members) != 3 {
		t.Errorf("the topology has the worker: %v; the members are %+v", has(w, lcmtest.SecondWorker), config.ClusterMembers)
	}
}
