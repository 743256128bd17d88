package operation_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An instance can be ended and deleted whatever this controller thinks of its parameters.
func TestWhatAnOlderControllerAcceptedCanBeTerminated(t *testing.T) {
	for name, c := range lifecycletest.Outdated {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Instantiated(t)
			w.Outdate(c.Change)
			servers, documents := []string{lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer}, map[string]string{}
			for _, id := range servers {
				documents[id] = w.Node(id).Digest
			}
			w.WantState(w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart)), api.Completed)
			for _, id := range servers {
				if n := w.Node(id); n.State != api.NodeEnrolled || n.Digest != documents[id] {
					t.Errorf("after the START, %s is %s with the document %s, want %s", n.Name, n.State, n.Digest, documents[id])
				}
			}
			w.WantState(w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)), api.Completed)
			for _, id := range servers {
				if n := w.Node(id); n.State != api.NodeRevoked {
					t.Errorf("after the END, %s is %s", n.Name, n.State)
				}
			}
			if i := w.Instance(); i.State != api.NotInstantiated || i.Topology != nil {
				t.Errorf("the instance is %s with the topology %+v", i.State, i.Topology)
			}
			w.Restart()
			w.Must(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID))
		})
	}
}
