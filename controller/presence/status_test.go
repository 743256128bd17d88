package presence_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/shared/api"
)

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

func TestANodeIsLostAfterThreeCadencesOfSilence(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.LCM.Nodes.Seen(lcmtest.StorageServer)
	w.Clock.Advance(90 * time.Second)
	w.LCM.Nodes.Seen(lcmtest.MasterServer)
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("after exactly three cadences the node is %s", got)
	}
	w.Clock.Advance(time.Second)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	w.Must(w.LCM.Sweep(w.Ctx))
	if !lcmtest.Woken(changed) {
		t.Error("who watches the nodes was not told")
	}
	for id, want := range map[string]api.NodeState{lcmtest.StorageServer: api.NodeLost, lcmtest.MasterServer: api.NodeEnrolled} {
		if got := w.Node(id).State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	w.LCM.Nodes.Seen(lcmtest.StorageServer)
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that called is %s", got)
	}
}

func TestSilenceCountsFromTheStartOfTheController(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Clock.Advance(24 * time.Hour)
	w.Restart()
	w.Clock.Advance(time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("a minute after the restart the node is %s", got)
	}
	w.Clock.Advance(time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeLost {
		t.Errorf("two minutes after the restart the silent node is %s", got)
	}
}

// An enrollment is a call like any other.
func TestALostNodeThatEnrollsAgainIsLostNoMore(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Clock.Advance(2 * time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeLost {
		t.Fatalf("after two minutes the silent node is %s", got)
	}
	w.Must(w.Enrollment.Reenroll(w.Ctx, lcmtest.StorageServer))
	w.Must(w.Enroll(lcmtest.StorageServer))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that enrolled again is %s", got)
	}
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
