package lcm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestARestartAtEveryPointOfAHealChangesNothing(t *testing.T) {
	w := lcmtest.Registered(t)
	steps := []func(){
		func() { w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer)) },
		func() {
			w.ReportVolumes(lcmtest.MasterServer, api.ConditionFalse, api.ReasonStuckTerminating, "pv1 is not gone")
		},
		w.ReportAbsent,
		func() {
			w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer))
		},
		func() { w.Converge(lcmtest.UUID(1, 2)) },
		func() { w.Converge(lcmtest.MasterServer) },
	}
	want := []struct {
		op      api.OperationState
		section api.PersistentVolumesSectionState
	}{
		{api.Processing, api.PersistentVolumesAbsent}, {api.Processing, api.PersistentVolumesAbsent}, {api.Completed, api.PersistentVolumesAbsent},
		{api.Processing, ""}, {api.Processing, api.PersistentVolumesPresent}, {api.Completed, api.PersistentVolumesPresent},
	}
	for i, step := range steps {
		step()
		before := w.Operations()
		w.Restart()
		if after := w.Operations(); !store.Same(before, after) || after[0].State != want[i].op {
			t.Fatalf("after step %d and a restart the operations are %+v, before it %+v; want %s", i, after, before, want[i].op)
		}
		w.WantSection(lcmtest.MasterServer, want[i].section)
	}
}

func TestAWithdrawalWhoseMasterIsLostGoesToAnother(t *testing.T) {
	w := lcmtest.Registered(t)
	second := lcmtest.UUID(2, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "master"))
	w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second)
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
	w := lcmtest.Registered(t)
	second := lcmtest.UUID(2, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "master"))
	w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second)
	w.Put(lcmtest.WithVolumes(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(second, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker"))))
	if n := w.Node(lcmtest.MasterServer); n.State != api.NodeEnrolled {
		t.Fatalf("%+v, want it to be let in still", n)
	}
	w.WantSection(lcmtest.MasterServer, "")
	w.WantSection(second, api.PersistentVolumesPresent)
}

func TestOtherContentOfAManifestReachesTheMaster(t *testing.T) {
	w := lcmtest.Registered(t)
	w.Clock.Advance(time.Second)
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv2"))
	if s := w.Section(lcmtest.MasterServer); s == nil || len(s.Manifests) != 1 || !strings.Contains(string(s.Manifests[0]), `"name":"pv2"`) {
		t.Fatalf("after another upload the section is %+v", s)
	}
	if n := w.Node(lcmtest.MasterServer); n.Ready {
		t.Error("the master is ready before it has registered the other volume")
	}
	w.Clock.Advance(time.Second)
	w.Upload(lcmtest.ManifestFile, "no manifest")
	if n := w.Node(lcmtest.MasterServer); w.Section(lcmtest.MasterServer) != nil || len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing {
		t.Errorf("after a faulty upload: %+v", n)
	}
}

func TestAManifestMayComeBeforeTheParametersThatNameIt(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	w.Converge(lcmtest.StorageServer)
	w.Put(lcmtest.WithVolumes(nil))
	if s := w.Section(lcmtest.MasterServer); s == nil || len(s.Manifests) != 1 {
		t.Errorf("the section is %+v", s)
	}
}

// A store that an older controller wrote has validated files without their manifests.
func TestManifestsOfAnOlderStoreAreReadAtTheStart(t *testing.T) {
	w := lcmtest.Registered(t)
	before := w.Node(lcmtest.MasterServer)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		for _, path := range []string{lcmtest.ScriptFile, lcmtest.ManifestFile} {
			f, _, err := tx.Files().Get(store.FileKey(lcmtest.InstanceID, path))
			w.Must(err)
			f.ValidatedFor, f.Manifests = strings.Repeat("a", 32), nil
			w.Must(tx.Files().Put(store.FileKey(lcmtest.InstanceID, path), f))
		}
		return nil
	}))
	w.Restart()
	if after := w.Node(lcmtest.MasterServer); after.Generation != before.Generation || after.Digest != before.Digest || !after.Ready {
		t.Errorf("after the restart %+v, before it %+v", after, before)
	}
}
