package discovery_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The documents of the others change by its name and by nothing else.
func TestAWorkerThatCallsIsAddedToItsCluster(t *testing.T) {
	w, c := lifecycletest.Created(t)
	w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.Parameters("10.10.0.0/24")}))
	for range 2 {
		w.Converge(w.Instance().Nodes...)
	}
	c.Stacks[lifecycletest.StackOne] = lifecycletest.GrownTopology()
	w.Must(w.Enroll(lifecycletest.SecondWorker))
	if config := w.Document(lifecycletest.MasterServer); !has(w, lifecycletest.SecondWorker) || len(config.ClusterMembers.Members) != 3 {
		t.Errorf("the topology has the worker: %v; the members are %+v", has(w, lifecycletest.SecondWorker), config.ClusterMembers)
	}
}
