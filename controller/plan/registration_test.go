package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestVolumesAreRegisteredOnceTheyAreServed(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.WithVolumes(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	if n := w.Node(lcmtest.MasterServer); w.Section(lcmtest.MasterServer) != nil || n.Withheld[0].Reason != api.ReasonWaitingForExports ||
		!strings.Contains(n.Withheld[0].Message, "does not serve /volume/nfs/pv1 yet") {
		t.Fatalf("before the storage server serves: %+v", n)
	}
	w.Converge(lcmtest.StorageServer)
	got := w.Section(lcmtest.MasterServer)
	if got == nil || got.State != api.PersistentVolumesPresent || len(got.Manifests) != 1 || !strings.Contains(string(got.Manifests[0]), `"server":"10.10.0.5"`) {
		t.Fatalf("once it serves the section is %+v", got)
	}
	sick := w.Status(lcmtest.StorageServer)
	for i := range sick.Conditions {
		sick.Conditions[i].Status = api.ConditionFalse
	}
	w.Report(lcmtest.StorageServer, sick)
	if w.Section(lcmtest.MasterServer) == nil {
		t.Error("an export that fails for a while takes the PersistentVolumes away")
	}
}

// registeredWithASecondMaster is the world after the cluster has grown by a master, whose id it
// returns.
func registeredWithASecondMaster(t *testing.T) (w *lcmtest.World, second string) {
	t.Helper()
	w, second = lcmtest.Registered(t), lcmtest.UUID(2, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "master"))
	w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
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
		w.LCM.Nodes.Seen(second)
		w.Must(w.LCM.Sweep(w.Ctx))
	}
	if w.Section(second) == nil || w.Section(lcmtest.MasterServer) != nil {
		t.Fatal("the master that fell silent still speaks for the cluster")
	}
	w.LCM.Nodes.Seen(lcmtest.MasterServer)
	if w.Section(second) == nil || w.Section(lcmtest.MasterServer) != nil {
		t.Error("the one that came back has taken over from one that is well")
	}
}

func TestAWithdrawalWhoseMasterIsLostGoesToAnother(t *testing.T) {
	w, second := registeredWithASecondMaster(t)
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(second)
		w.Must(w.LCM.Sweep(w.Ctx))
	}
	w.WantSection(lcmtest.MasterServer, "")
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
	w.Put(lcmtest.WithVolumes(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(second, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker"))))
	if n := w.Node(lcmtest.MasterServer); n.State != api.NodeEnrolled {
		t.Fatalf("%+v, want it to be let in still", n)
	}
	w.WantSection(lcmtest.MasterServer, "")
	w.WantSection(second, api.PersistentVolumesPresent)
}
