package lcm_test

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

func TestAVolumeInUseFailsTheHealAtOnce(t *testing.T) {
	w := lcmtest.Registered(t)
	version := w.Instance().DesiredVersion
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	const message = "none is deleted: PersistentVolume pv1 is Bound, by claim default/data"
	w.ReportVolumes(lcmtest.MasterServer, api.ConditionFalse, api.ReasonInUse, message)
	got := w.Operation(start.ID)
	if got.State != api.Failed {
		t.Fatalf("HEAL START is %+v, want FAILED", got)
	}
	w.WantRefused(got.Error, api.ProblemVolumesInUse, "are in use (409): "+message, "the previous desired state is in force again")
	if s := w.Section(lcmtest.MasterServer); w.Instance().DesiredVersion != version || s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("version %d is in force, want %d; the section is %+v", w.Instance().DesiredVersion, version, s)
	}
}

func TestVolumesThatAreNotGoneByTheDeadlineComeBack(t *testing.T) {
	w := lcmtest.Registered(t)
	r := lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer)
	r.DeadlineSeconds = 60
	start := w.Post(r)
	w.ReportVolumes(lcmtest.MasterServer, api.ConditionFalse, api.ReasonStuckTerminating, "PersistentVolume pv1 was deleted and is not gone")
	w.Put(lcmtest.WithVolumes(lcmtest.FullTopology())) // the same again: nothing changes
	w.Clock.Advance(time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	got := w.Operation(start.ID)
	w.WantRefused(got.Error, api.ProblemDeadline, "StuckTerminating", "pv1 was deleted and is not gone")
	if s := w.Section(lcmtest.MasterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("the section is %+v", s)
	}
}

func TestAnotherMasterSpeaksForTheClusterWhenOneIsLost(t *testing.T) {
	w := lcmtest.Registered(t)
	second := lcmtest.UUID(2, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "master"))
	w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second)
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

// That a master has been silent for too long is found by the sweep and by nothing else.
// A plan between two sweeps that read the clock itself would find it too, and so what is
// on record would depend on whether anything happened to be planned: here, after a call
// that changes nothing, at the moment at which the first master's time is over.
func TestTimeAloneTakesNothingFromTheMasterThatSpeaks(t *testing.T) {
	w := lcmtest.Registered(t)
	second := lcmtest.UUID(2, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "master"))
	w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second, lcmtest.MasterServer)
	for range 3 {
		w.Clock.Advance(lcmtest.Cadence)
		w.LCM.Nodes.Seen(second)
		w.Must(w.LCM.Sweep(w.Ctx))
	}
	w.WantRefused(w.Enroll(second), api.ProblemIdentityLive) // the clock goes on
	inLine := func(when string) {
		if w.Writes(func() { w.Must(w.LCM.Reconciler.Reconcile(w.Ctx, lcmtest.InstanceID)) }) {
			t.Errorf("%s, the records are not in line with the desired state in force", when)
		}
	}
	inLine("before the sweep")
	if got := w.Node(lcmtest.MasterServer).State; got != api.NodeEnrolled || w.Section(lcmtest.MasterServer) == nil {
		t.Errorf("before the sweep the first master is %s and its section %+v", got, w.Section(lcmtest.MasterServer))
	}
	w.Must(w.LCM.Sweep(w.Ctx))
	inLine("after the sweep")
	if got := w.Node(lcmtest.MasterServer).State; got != api.NodeLost || w.Section(lcmtest.MasterServer) != nil || w.Section(second) == nil {
		t.Errorf("after the sweep the first master is %s and its section %+v, that of the second %+v", got, w.Section(lcmtest.MasterServer), w.Section(second))
	}
}

func TestVolumesOfAServerThatIsGoneDoNotComeBack(t *testing.T) {
	w := lcmtest.Registered(t)
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	w.ReportVolumes(lcmtest.MasterServer, api.ConditionTrue, api.ReasonAbsent, "")
	for range 70 { // Heat takes longer than the START waits
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(lcmtest.MasterServer)
		w.Must(w.LCM.Sweep(w.Ctx))
	}
	w.WantRefused(w.Operation(start.ID).Error, api.ProblemInterrupted)
	if n := w.Node(lcmtest.MasterServer); w.Section(lcmtest.MasterServer) != nil || n.Withheld[0].Reason != api.ReasonWaitingForExports {
		t.Fatalf("the storage server is silent, and the section is %+v", w.Section(lcmtest.MasterServer))
	}
	w.Report(lcmtest.StorageServer, w.Status(lcmtest.StorageServer))
	if s := w.Section(lcmtest.MasterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("once it is back the section is %+v", s)
	}
}
