package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestVolumesAreRegisteredOnceTheyAreServed(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithVolumes(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	if n := w.Node(lifecycletest.MasterServer); w.Section(lifecycletest.MasterServer) != nil || n.Withheld[0].Reason != api.ReasonWaitingForExports ||
		!strings.Contains(n.Withheld[0].Message, "does not serve /volume/nfs/pv1 yet") {
		t.Fatalf("before the storage server serves: %+v", n)
	}
	w.Converge(lifecycletest.StorageServer)
	got := w.Section(lifecycletest.MasterServer)
	if got == nil || got.State != api.PersistentVolumesPresent || len(got.Manifests) != 1 || !strings.Contains(string(got.Manifests[0]), `"server":"10.10.0.5"`) {
		t.Fatalf("once it serves the section is %+v", got)
	}
	sick := w.Status(lifecycletest.StorageServer)
	for i := range sick.Conditions {
		sick.Conditions[i].Status = api.ConditionFalse
	}
	w.Report(lifecycletest.StorageServer, sick)
	if w.Section(lifecycletest.MasterServer) == nil {
		t.Error("an export that fails for a while takes the PersistentVolumes away")
	}
}

// registeredWithASecondMaster is the world after the cluster has grown by a master, whose id it
// returns.
func registeredWithASecondMaster(t *testing.T) (w *lifecycletest.World, second string) {
	t.Helper()
	w, second = lifecycletest.Registered(t), lifecycletest.UUID(2, 2)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "master"))
	w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second)
	return w, second
}

func TestAnotherMasterSpeaksForTheClusterWhenOneIsLost(t *testing.T) {
	w, second := registeredWithASecondMaster(t)
	if w.Section(second) != nil {
		t.Fatal("two masters register the PersistentVolumes")
	}
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.Lifecycle.Nodes.Seen(second)
		w.Must(w.Lifecycle.Sweep(w.Ctx))
	}
	if w.Section(second) == nil || w.Section(lifecycletest.MasterServer) != nil {
		t.Fatal("the master that fell silent still speaks for the cluster")
	}
	w.Lifecycle.Nodes.Seen(lifecycletest.MasterServer)
	if w.Section(second) == nil || w.Section(lifecycletest.MasterServer) != nil {
		t.Error("the one that came back has taken over from one that is well")
	}
}

func TestAWithdrawalWhoseMasterIsLostGoesToAnother(t *testing.T) {
	w, second := registeredWithASecondMaster(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.Lifecycle.Nodes.Seen(second)
		w.Must(w.Lifecycle.Sweep(w.Ctx))
	}
	w.WantSection(lifecycletest.MasterServer, "")
	w.WantSection(second, api.PersistentVolumesAbsent)
	if got := w.WantState(start, api.Processing); len(got.Targets) != 1 || got.Targets[0].NodeID != second {
		t.Errorf("it waits for %+v, want the master that is left", got.Targets)
	}
	w.ReportVolumes(second, api.ConditionTrue, api.ReasonAbsent, "")
	w.WantState(start, api.Completed)
}

// A master that leaves keeps its identity until the END, and keeps its last document.
func TestAMasterThatLeavesRegistersNothingAnyMore(t *testing.T) {
	w, second := registeredWithASecondMaster(t)
	w.Put(lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(second, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))))
	if n := w.Node(lifecycletest.MasterServer); n.State != api.NodeEnrolled {
		t.Fatalf("%+v, want it to be let in still", n)
	}
	w.WantSection(lifecycletest.MasterServer, "")
	w.WantSection(second, api.PersistentVolumesPresent)
}
