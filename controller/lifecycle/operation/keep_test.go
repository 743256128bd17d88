package operation_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// replacement is the server that takes the place of the storage server.
var replacement = lifecycletest.UUID(1, 2)

func healStart() api.OperationRequest {
	return lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)
}

func healEnd() api.OperationRequest {
	return lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer)
}

// volumesOf wants the document of a server to name the volume, or not to.
func wantVolume(w *lifecycletest.World, nodeID string, want bool) {
	w.Helper()
	if s := w.Document(nodeID).Storage; (s != nil) != want {
		w.Fatalf("the storage section of %s is %+v, want one: %v", nodeID, s, want)
	}
}

func TestAHealThatKeepsPersistentVolumesWaitsForTheOldServer(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	if s := w.Document(lifecycletest.StorageServer).Storage; s.ClientRecords != "/volume/.nodehitch/nfs-clients" {
		t.Errorf("the clients' record is at %q", s.ClientRecords)
	}
	before := w.Node(lifecycletest.MasterServer).Generation
	start := w.WantState(w.Post(healStart()), api.Completed)
	if start.PersistentVolumes != api.KeepPersistentVolumes {
		t.Errorf("the START says %q of the PersistentVolumes", start.PersistentVolumes)
	}
	end := w.Post(healEnd())
	w.Must(w.Enroll(replacement))
	wantVolume(w, replacement, false)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	w.Restart()
	w.Source = cloud
	w.Lifecycle.Instances.Observer.Source = cloud
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	wantVolume(w, replacement, false)
	if got := w.Operation(end.ID).Targets[0]; got.Reason != api.ReasonOldServerMayWrite {
		t.Errorf("the END waits for %+v", got)
	}
	cloud.Replaced(replacement)
	w.Clock.Advance(lifecycletest.ShortestPause)
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	wantVolume(w, replacement, true)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	w.WantState(end, api.Processing)
	w.Converge(replacement)
	w.WantState(end, api.Completed)
	if after := w.Node(lifecycletest.MasterServer).Generation; after != before {
		t.Errorf("the master's document is generation %d, and was %d", after, before)
	}
}

func TestAnOperatorStatesThatTheOldServerIsOff(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.Post(healStart())
	end := w.Post(healEnd())
	wantVolume(w, replacement, false)
	w.MustCancel(end)
	again := healEnd()
	again.OldServerIsOff = true
	end = w.Post(again)
	wantVolume(w, replacement, true)
	if end.OldServerIsOffBy == "" || end.PersistentVolumes != api.KeepPersistentVolumes {
		t.Errorf("the END is %+v", end)
	}
	w.Must(w.Enroll(replacement))
	w.Converge(replacement)
	w.WantState(end, api.Completed)
}
