package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestVolumesOfAServerThatIsGoneDoNotComeBack(t *testing.T) {
	w := lifecycletest.Registered(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionTrue, api.ReasonAbsent, "")
	for range 70 { // Heat takes longer than the START waits
		w.Clock.Advance(30 * time.Second)
		w.Lifecycle.Nodes.Seen(lifecycletest.MasterServer)
		w.Must(w.Lifecycle.Sweep(w.Ctx))
	}
	w.WantRefused(w.Operation(start.ID).Error, api.ProblemInterrupted)
	if n := w.Node(lifecycletest.MasterServer); w.Section(lifecycletest.MasterServer) != nil || n.Withheld[0].Reason != api.ReasonWaitingForExports {
		t.Fatalf("the storage server is silent, and the section is %+v", w.Section(lifecycletest.MasterServer))
	}
	w.Report(lifecycletest.StorageServer, w.Status(lifecycletest.StorageServer))
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("once it is back the section is %+v", s)
	}
}

func TestAPutTakesNoStorageServerFromAWithdrawal(t *testing.T) {
	w := lifecycletest.Registered(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.WithVolumes(lifecycletest.HealedTopology(lifecycletest.UUID(1, 2))))
	w.WantRefused(err, api.ProblemOperationInProgress, start.ID, lifecycletest.StorageServer)
	_, _, err = w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))))
	w.WantRefused(err, api.ProblemOperationInProgress, lifecycletest.MasterServer)
	w.Put(lifecycletest.Spec(nil))
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.State != api.PersistentVolumesAbsent || len(s.Manifests) != 0 {
		t.Errorf("with no manifest left the section is %+v", s)
	}
	w.ReportAbsent()
	w.WantState(start, api.Completed)
}

// Other addresses would leave PersistentVolumes in the cluster that were made by the old ones
// and that no manifest names any more.
func TestAPutTakesNoAddressFromAWithdrawal(t *testing.T) {
	w := lifecycletest.Registered(t)
	now := *w.Instance().Topology
	addresses := lifecycletest.AddressesOf(now.Servers[slices.IndexFunc(now.Servers, func(s api.Server) bool { return s.ID == lifecycletest.StorageServer })])
	moved := lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.WithAddresses(lifecycletest.Server(lifecycletest.StorageServer, "storage"), "10.10.1.5", "10.10.1.6"), lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker")))
	start := w.Post(api.OperationRequest{Operation: api.ChangeExtConn, Phase: api.PhaseStart})
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv2"))
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, moved)
	w.WantRefused(err, api.ProblemOperationInProgress, start.ID, addresses[0], "10.10.1.5, 10.10.1.6")
	if s := w.Section(lifecycletest.MasterServer); s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, addresses) {
		t.Errorf("the master is asked for %+v, want none at %v", s, addresses)
	}
	w.ReportAbsent()
	w.WantState(start, api.Completed)
	w.Put(moved)
}
