package reconcile_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

var madeOf = []string{lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.WorkerServer}

// The record of a node that an older controller has written does not say what the node was told. Its
// document does.
func TestWhatAnOlderControllerHasToldCounts(t *testing.T) {
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(madeOf...))
	w.Must(w.Store.Update(func(t *store.Tx) error {
		for _, id := range madeOf {
			n, _, err := t.Nodes().Get(id)
			if err != nil {
				return err
			}
			n.KubernetesVersion = ""
			if err := t.Nodes().Put(id, n); err != nil {
				return err
			}
		}
		return nil
	}))
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	if got := w.Versions(madeOf...); got != "1.34.4 1.34.4 1.34.4" {
		t.Errorf("told %s", got)
	}
}

// A master that says that its certificates are due gets the turn with this report, and the next one
// when it says that they are new.
func TestMastersSayWhenTheirCertificatesAreDue(t *testing.T) {
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(madeOf...))
	reports := func(id string, due bool) {
		t.Helper()
		s := w.Status(id)
		s.ControlPlane = &api.ControlPlaneFacts{CertificatesExpireAt: w.Clock.Now().Add(24 * time.Hour), RenewalDue: due}
		w.Report(id, s)
	}
	turns := func(first, other bool) {
		t.Helper()
		got := [2]bool{w.Document(madeOf[0]).ControlPlane.RenewCertificates, w.Document(madeOf[1]).ControlPlane.RenewCertificates}
		if got != [2]bool{first, other} {
			t.Fatalf("the turns of the masters are %v, want %v and %v", got, first, other)
		}
	}
	reports(madeOf[1], true)
	turns(false, true)
	reports(madeOf[0], true)
	turns(false, true)
	reports(madeOf[1], true) // of its new document
	turns(false, true)
	reports(madeOf[1], false)
	turns(true, false)
	reports(madeOf[1], false)
	reports(madeOf[0], false)
	turns(false, false)
	if got := w.Node(madeOf[0]).Status.ControlPlane; got == nil || got.RenewalDue {
		t.Errorf("operators see %+v", got)
	}
}

// One master applies what one does for the cluster: what it was asked to drain, another one is.
func TestAMasterThatLeftDrainsNobody(t *testing.T) {
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(madeOf...))
	w.Put(lifecycletest.WithVersion(lifecycletest.ClusterOf(madeOf[1:]...), lifecycletest.NewVersion))
	if left, now := w.Document(madeOf[0]).ClusterDrains, w.Document(madeOf[1]).ClusterDrains; left != nil || now == nil || len(now.Members) != 1 {
		t.Errorf("the one that left drains %+v, the other one %+v", left, now)
	}
}

// A master whose document a plan changes is not healthy until it has reported for the new one.
func TestWhatAPlanChangesCountsAtOnce(t *testing.T) {
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(madeOf...))
	w.Must(w.Enrollment.Revoke(w.Ctx, madeOf[0], "by hand"))
	w.Converge(madeOf[1])
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	w.Upload(lifecycletest.PodNetworkFile, lifecycletest.PodNetwork+"\n# another one\n")
	if waits := w.Node(madeOf[1]).Withheld; len(waits) == 0 || waits[0].WaitsFor != madeOf[1] {
		t.Errorf("the owner waits for %+v, want for its own report of the new manifest", waits)
	}
	if w.Writes(func() { w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, lifecycletest.InstanceID)) }) {
		t.Error("reconciled again, it is planned otherwise")
	}
}

// What a document said before its machine came is nothing that the machine has been told.
func TestAWorkerThatComesDuringAnUpgradeWaits(t *testing.T) {
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(madeOf...))
	w.Put(lifecycletest.WithVersion(lifecycletest.ClusterOf(append(madeOf, lifecycletest.SecondWorker)...), lifecycletest.OldVersion))
	if w.Document(lifecycletest.SecondWorker).Kubernetes == nil {
		t.Fatal("before the upgrade the new worker is not to join")
	}
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	w.Must(w.Enroll(lifecycletest.SecondWorker))
	w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, lifecycletest.InstanceID))
	if k := w.Document(lifecycletest.SecondWorker).Kubernetes; k != nil {
		t.Errorf("it is told %s; it waits for the masters, and joins with the new version", k.Version)
	}
}
