package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAPutInTheMiddleOfAWithdrawalCarriesItOn(t *testing.T) {
	for name, awaited := range map[string]bool{"of a START in progress": false, "of one that awaits its END": true} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Registered(t)
			start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
			if awaited {
				w.ReportAbsent()
			}
			version := w.Put(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.20.0.0/24")}).DesiredVersion
			w.WantSection(lcmtest.MasterServer, api.PersistentVolumesAbsent)
			if !awaited {
				w.ReportAbsent()
			}
			w.WantState(start, api.Completed)
			w.Clock.Advance(time.Hour)
			w.Must(w.LCM.Sweep(w.Ctx))
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemInterrupted, "a newer version of the desired state is in force and stays")
			w.Converge(lcmtest.StorageServer)
			w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
			if now := w.Instance(); now.DesiredVersion != version+1 || !strings.Contains(string(now.AdditionalParams), "10.20.0.0/24") {
				t.Errorf("version %d is in force with %s, want the PUT's parameters in version %d", now.DesiredVersion, now.AdditionalParams, version+1)
			}
		})
	}
}

func TestAPutTakesNoStorageServerFromAWithdrawal(t *testing.T) {
	w := lcmtest.Registered(t)
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.WithVolumes(lcmtest.HealedTopology(lcmtest.UUID(1, 2))))
	w.WantRefused(err, api.ProblemOperationInProgress, start.ID, lcmtest.StorageServer)
	_, _, err = w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.WithVolumes(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(lcmtest.WorkerServer, "worker"))))
	w.WantRefused(err, api.ProblemOperationInProgress, lcmtest.MasterServer)
	w.Put(lcmtest.Spec(nil))
	if s := w.Section(lcmtest.MasterServer); s == nil || s.State != api.PersistentVolumesAbsent || len(s.Manifests) != 0 {
		t.Errorf("with no manifest left the section is %+v", s)
	}
	w.ReportAbsent()
	w.WantState(start, api.Completed)
}

// Other addresses would leave PersistentVolumes in the cluster that were made by the old ones
// and that no manifest names any more.
func TestAPutTakesNoAddressFromAWithdrawal(t *testing.T) {
	w := lcmtest.Registered(t)
	now := *w.Instance().Topology
	addresses := lcmtest.AddressesOf(now.Servers[slices.IndexFunc(now.Servers, func(s api.Server) bool { return s.ID == lcmtest.StorageServer })])
	moved := lcmtest.WithVolumes(lcmtest.TopologyOf(lcmtest.WithAddresses(lcmtest.Server(lcmtest.StorageServer, "storage"), "10.10.1.5", "10.10.1.6"), lcmtest.Server(lcmtest.MasterServer, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker")))
	start := w.Post(api.OperationRequest{Operation: api.ChangeExtConn, Phase: api.PhaseStart})
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv2"))
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, moved)
	w.WantRefused(err, api.ProblemOperationInProgress, start.ID, addresses[0], "10.10.1.5, 10.10.1.6")
	if s := w.Section(lcmtest.MasterServer); s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, addresses) {
		t.Errorf("the master is asked for %+v, want none at %v", s, addresses)
	}
	w.ReportAbsent()
	w.WantState(start, api.Completed)
	w.Put(moved)
}

// What was said of a generation that is past says nothing of the present one, though the
// content be the same: in between the volumes were made again.
func TestAnAnswerToAnEarlierStartIsNoneToThisOne(t *testing.T) {
	w := lcmtest.Registered(t)
	w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	early := w.Status(lcmtest.MasterServer)
	early.Condition(api.ConditionPersistentVolumesRegistered).Reason = api.ReasonAbsent
	w.Report(lcmtest.MasterServer, early)
	w.Clock.Advance(time.Hour)
	w.Must(w.LCM.Sweep(w.Ctx))
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer)
	ready := w.Status(lcmtest.MasterServer)
	second := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	w.Report(lcmtest.MasterServer, early)
	w.WantState(second, api.Processing)
	w.ReportVolumes(lcmtest.MasterServer, api.ConditionFalse, api.ReasonInUse, "pv1 is bound")
	w.WantState(second, api.Failed)
	w.Report(lcmtest.MasterServer, ready)
	if n := w.Node(lcmtest.MasterServer); n.Ready {
		t.Errorf("%+v is ready by what it was before the START", n)
	}
	w.Converge(lcmtest.MasterServer)
	if n := w.Node(lcmtest.MasterServer); !n.Ready {
		t.Errorf("%+v is not ready", n)
	}
}

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

func TestAMasterThatEnrollsAndIsNeverHeardOfAgainIsMissed(t *testing.T) {
	w := lcmtest.New(t)
	second := lcmtest.UUID(2, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "master"))
	w.Put(lcmtest.WithVolumes(grown))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	w.Must(w.LCM.Sweep(w.Ctx)) // the controller runs
	w.Must(w.Enroll(lcmtest.MasterServer))
	w.Converge(second, lcmtest.StorageServer)
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(second)
		w.LCM.Nodes.Seen(lcmtest.StorageServer)
		w.Must(w.LCM.Sweep(w.Ctx))
	}
	w.WantSection(second, api.PersistentVolumesPresent)
}

// The first report of a document may bring conditions that were found for the one before.
func TestAConditionOfTheDocumentBeforeIsNoAnswer(t *testing.T) {
	w := lcmtest.Registered(t)
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	s := w.Status(lcmtest.MasterServer)
	c := s.Condition(api.ConditionPersistentVolumesRegistered)
	c.Reason, c.ObservedGeneration = api.ReasonAbsent, s.ObservedGeneration-1
	w.Report(lcmtest.MasterServer, s)
	w.WantState(start, api.Processing)
	c.ObservedGeneration++
	w.Report(lcmtest.MasterServer, s)
	w.WantState(start, api.Completed)
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

// A storage server that was lost counts again with its next call, though that has nothing
// new to say.
func TestAStorageServerThatIsBackIsHeardAtOnce(t *testing.T) {
	w := lcmtest.Registered(t)
	w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	w.ReportAbsent()
	w.Clock.Advance(2 * time.Minute)
	w.LCM.Nodes.Seen(lcmtest.MasterServer)
	w.Must(w.LCM.Sweep(w.Ctx))
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd)) // takes the withdrawal back
	w.WantSection(lcmtest.MasterServer, "")
	w.LCM.Nodes.Seen(lcmtest.StorageServer)
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
}

// A PUT brought the new storage server, so that the END itself changes nothing for the
// master. What it is given during the END it has to do before that is over.
func TestAnEndWaitsForWhatItHasReleased(t *testing.T) {
	w := lcmtest.Registered(t)
	w.Put(lcmtest.WithVolumes(lcmtest.HealedTopology(lcmtest.UUID(1, 2))))
	end := w.Post(lcmtest.Heal(api.PhaseEnd, nil, lcmtest.StorageServer))
	if ids := reconcile.TargetIDs(end.Targets); !slices.Equal(ids, []string{lcmtest.UUID(1, 2)}) {
		t.Fatalf("targets %v, want the new storage server", ids)
	}
	w.Converge(lcmtest.UUID(1, 2))
	if got := w.WantState(end, api.Processing); !slices.Contains(reconcile.TargetIDs(got.Targets), lcmtest.MasterServer) {
		t.Errorf("targets %+v, want the master too", got.Targets)
	}
	w.Converge(lcmtest.MasterServer)
	w.WantState(end, api.Completed)
}
