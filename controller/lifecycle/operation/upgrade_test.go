package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// upgraded is the cluster whose members are in this order, with its servers' ids.
var upgraded = []string{lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.WorkerServer, lifecycletest.SecondWorker}

func madeCluster(t *testing.T) *lifecycletest.World {
	t.Helper()
	return lifecycletest.Made(t, lifecycletest.ClusterOf(upgraded...))
}

func wantVersions(w *lifecycletest.World, want string) {
	w.Helper()
	want = strings.NewReplacer("old", lifecycletest.OldVersion, "new", lifecycletest.NewVersion).Replace(want)
	if got := w.Versions(upgraded...); got != want {
		w.Fatalf("the members are told %s, want %s", got, want)
	}
}

// The END is in progress until the last member is upgraded, and says whose turn it is and who waits.
func TestTheEndOfAnUpgradeWaitsForTheLastMember(t *testing.T) {
	for _, operation := range []api.OperationType{api.ModifyInfo, api.ChangeVnfPkg} {
		t.Run(string(operation), func(t *testing.T) {
			w := madeCluster(t)
			w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
			wantVersions(w, "old old old old")
			r := lifecycletest.Request(operation, api.PhaseEnd)
			if operation == api.ChangeVnfPkg {
				r.Topology = w.Instance().Topology
			}
			op := w.Post(r)
			worker := targetOf(t, w.Operation(op.ID), lifecycletest.SecondWorker)
			if worker.Reason != api.ReasonWaitingForTurn || worker.WaitsFor != lifecycletest.WorkerServer || worker.Final ||
				worker.Message != "is upgraded from 1.34.4 to 1.35.4 after worker ("+lifecycletest.WorkerServer+")" {
				t.Fatalf("the last worker is %+v", worker)
			}
			master, other, first, second := upgraded[0], upgraded[1], upgraded[2], upgraded[3]
			for _, step := range []struct{ reports, told string }{
				{master, "new old old old"}, // its Node is drained
				{master, "new old old old"}, // it is a member of that version
				{master, "new new old old"},
				{other, "new new old old"},
				{master, "new new new old"},
				{second, "new new new old"}, // it is not its turn
				{first, "new new new old"},
				{master, "new new new new"},
				{master, "new new new new"},
			} {
				w.WantState(op, api.Processing)
				w.Converge(step.reports)
				wantVersions(w, step.told)
			}
			w.WantState(op, api.Processing)
			w.Converge(second, master)
			w.WantState(op, api.Completed)
		})
	}
}

func targetOf(t *testing.T, op api.Operation, id string) api.OperationTarget {
	t.Helper()
	for _, target := range op.Targets {
		if target.NodeID == id {
			return target
		}
	}
	t.Fatalf("%s is no target of %+v", id, op)
	return api.OperationTarget{}
}

// What has been told stays, the others stay at their version, also over a restart, until the operation
// is repeated. Servers of other operations join meanwhile as far as they can.
func TestAnUpgradeThatIsCancelledGoesOnWhenItIsRepeated(t *testing.T) {
	w := madeCluster(t)
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	op := w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	w.MustCancel(op)
	converge := func() {
		for range 4 {
			w.Converge(w.Instance().Nodes...)
		}
	}
	converge()
	wantVersions(w, "old old old old")
	if !lifecycletest.HasFault(w.Instance().Warnings, "/additionalParams/k8s_cluster_installation_param/kubernetes/version", "4 members stay at an older version") {
		t.Errorf("warnings %+v", w.Instance().Warnings)
	}
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion)) // the same is no other wish
	converge()
	wantVersions(w, "old old old old")

	op = w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	w.Converge(lifecycletest.MasterServer)
	wantVersions(w, "new old old old")
	w.MustCancel(op)
	w.Restart()
	for range 4 {
		w.Converge(upgraded...)
	}
	wantVersions(w, "new old old old")
	w.Restore() // the agents are asked to say all again
	_, err := w.Lifecycle.Instances.ConfirmInstance(w.Ctx, lifecycletest.InstanceID)
	w.Must(err)
	op = w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	for range 6 {
		converge()
	}
	wantVersions(w, "new new new new")
	w.WantState(op, api.Completed)
}

// What no waiting mends ends the operation early, however long the row of those that wait.
func TestAnUpgradeThatWaitingDoesNotMendEndsEarly(t *testing.T) {
	w := madeCluster(t)
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	op := w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer, upgraded[0], upgraded[1], upgraded[2], upgraded[3])
	wantVersions(w, "new old old old")
	w.ReportFailed(lifecycletest.MasterServer, api.ConditionKubernetesInstalled, api.ReasonCgroupUnsupported, "cgroup v1")
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(op, lifecycletest.TargetsFailed, "after the grace")
}

// An upgrade takes long, and a person may delete a Pod that nobody may evict.
func TestAnUpgradeWaitsForSomebodyToDeleteAPod(t *testing.T) {
	w := madeCluster(t)
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	op := w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer, upgraded[1], upgraded[2], upgraded[3])
	w.ReportFailed(lifecycletest.MasterServer, api.ConditionClusterMembersDrained, api.ReasonUnmanagedPods, "Pod shop/debug")
	w.Wait(lifecycletest.Grace)
	w.WantState(op, api.Processing)
	if owner := targetOf(t, w.Operation(op.ID), lifecycletest.MasterServer); owner.Reason != api.ReasonUnmanagedPods || owner.Final {
		t.Errorf("the owner is %+v", owner)
	}
	wantVersions(w, "old old old old")
	w.Converge(upgraded...)
	wantVersions(w, "new old old old")
}

// A wave that has been told ends as if nothing had been cancelled: its members keep the version, and their
// Nodes take Pods again only once they are well.
func TestAnUpgradeThatIsCancelledAfterAWaveWasTold(t *testing.T) {
	w := madeCluster(t)
	w.Put(lifecycletest.WithVersion(nil, lifecycletest.NewVersion))
	op := w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	master, other, first, second := upgraded[0], upgraded[1], upgraded[2], upgraded[3]
	for _, each := range []string{master, master, master, other, master} {
		w.Converge(each)
	}
	wantDrained := func(ids ...string) {
		t.Helper()
		var got []string
		for _, m := range w.Document(master).ClusterDrains.Members {
			got = append(got, m.ServerID)
		}
		if !slices.Equal(got, ids) {
			t.Fatalf("the Nodes of %v are drained, want those of %v", got, ids)
		}
	}
	wantVersions(w, "new new new old")
	wantDrained(first)
	w.MustCancel(op)
	w.WantOutcome(op, "FAILED cancelled", "after the cancel")
	for range 3 {
		w.Converge(master, other, second)
	}
	wantVersions(w, "new new new old")
	wantDrained(first)
	w.Converge(first)
	wantDrained()
	for range 3 {
		w.Converge(upgraded...)
	}
	wantVersions(w, "new new new old")
	wantDrained()
	if !lifecycletest.HasFault(w.Instance().Warnings, "/additionalParams/k8s_cluster_installation_param/kubernetes/version", "1 members stay at an older version") {
		t.Errorf("warnings %+v", w.Instance().Warnings)
	}
	op = w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	for range 3 {
		w.Converge(w.Instance().Nodes...)
	}
	wantVersions(w, "new new new new")
	w.WantState(op, api.Completed)
	if got := w.Instance().Warnings; lifecycletest.HasFault(got, "/additionalParams/k8s_cluster_installation_param/kubernetes/version", "an older version") {
		t.Errorf("it is complete, with the warnings %+v", got)
	}
}
