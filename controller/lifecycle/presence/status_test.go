package presence_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/shared/api"
)

// That a master has been silent for too long is found by the sweep and by nothing else.
// A plan between two sweeps that read the clock itself would find it too, and so what is
// on record would depend on whether anything happened to be planned: here, after a call
// that changes nothing, at the moment at which the first master's time is over.
func TestTimeAloneTakesNothingFromTheMasterThatSpeaks(t *testing.T) {
	w := lifecycletest.Registered(t)
	second := lifecycletest.UUID(2, 2)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "master"))
	w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second, lifecycletest.MasterServer)
	for range 3 {
		w.Clock.Advance(lifecycletest.PollInterval)
		w.Lifecycle.Nodes.Seen(second)
		w.Must(w.Lifecycle.Sweep(w.Ctx))
	}
	w.WantRefused(w.Enroll(second), api.ProblemIdentityLive) // the clock goes on
	inLine := func(when string) {
		if w.Writes(func() { w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, lifecycletest.InstanceID)) }) {
			t.Errorf("%s, the records are not in line with the desired state in force", when)
		}
	}
	inLine("before the sweep")
	if got := w.Node(lifecycletest.MasterServer).State; got != api.NodeEnrolled || w.Section(lifecycletest.MasterServer) == nil {
		t.Errorf("before the sweep the first master is %s and its section %+v", got, w.Section(lifecycletest.MasterServer))
	}
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	inLine("after the sweep")
	if got := w.Node(lifecycletest.MasterServer).State; got != api.NodeLost || w.Section(lifecycletest.MasterServer) != nil || w.Section(second) == nil {
		t.Errorf("after the sweep the first master is %s and its section %+v, that of the second %+v", got, w.Section(lifecycletest.MasterServer), w.Section(second))
	}
}

func TestANodeIsLostAfterThreeCadencesOfSilence(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Lifecycle.Nodes.Seen(lifecycletest.StorageServer)
	w.Clock.Advance(90 * time.Second)
	w.Lifecycle.Nodes.Seen(lifecycletest.MasterServer)
	if got := w.Node(lifecycletest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("after exactly three poll intervals the node is %s", got)
	}
	w.Clock.Advance(time.Second)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if !lifecycletest.Woken(changed) {
		t.Error("who watches the nodes was not told")
	}
	for id, want := range map[string]api.NodeState{lifecycletest.StorageServer: api.NodeLost, lifecycletest.MasterServer: api.NodeEnrolled} {
		if got := w.Node(id).State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	w.Lifecycle.Nodes.Seen(lifecycletest.StorageServer)
	if got := w.Node(lifecycletest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that called is %s", got)
	}
}

func TestSilenceCountsFromTheStartOfTheController(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Clock.Advance(24 * time.Hour)
	w.Restart()
	w.Clock.Advance(time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Node(lifecycletest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("a minute after the restart the node is %s", got)
	}
	w.Clock.Advance(time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Node(lifecycletest.StorageServer).State; got != api.NodeLost {
		t.Errorf("two minutes after the restart the silent node is %s", got)
	}
}

// An enrollment is a call like any other.
func TestALostNodeThatEnrollsAgainIsLostNoMore(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Clock.Advance(2 * time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Node(lifecycletest.StorageServer).State; got != api.NodeLost {
		t.Fatalf("after two minutes the silent node is %s", got)
	}
	w.Must(w.Enrollment.Reenroll(w.Ctx, lifecycletest.StorageServer))
	w.Must(w.Enroll(lifecycletest.StorageServer))
	if got := w.Node(lifecycletest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that enrolled again is %s", got)
	}
}

func TestAMasterThatEnrollsAndIsNeverHeardOfAgainIsMissed(t *testing.T) {
	w := lifecycletest.New(t)
	second := lifecycletest.UUID(2, 2)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "master"))
	w.Put(lifecycletest.WithVolumes(grown))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	w.Must(w.Lifecycle.Sweep(w.Ctx)) // the controller runs
	w.Must(w.Enroll(lifecycletest.MasterServer))
	w.Converge(second, lifecycletest.StorageServer)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.Lifecycle.Nodes.Seen(second)
		w.Lifecycle.Nodes.Seen(lifecycletest.StorageServer)
		w.Must(w.Lifecycle.Sweep(w.Ctx))
	}
	w.WantSection(second, api.PersistentVolumesPresent)
}

// A storage server that was lost counts again with its next call, though that has nothing
// new to say.
func TestAStorageServerThatIsBackIsHeardAtOnce(t *testing.T) {
	w := lifecycletest.Registered(t)
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	w.ReportAbsent()
	w.Clock.Advance(2 * time.Minute)
	w.Lifecycle.Nodes.Seen(lifecycletest.MasterServer)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd)) // takes the withdrawal back
	w.WantSection(lifecycletest.MasterServer, "")
	w.Lifecycle.Nodes.Seen(lifecycletest.StorageServer)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
}
