package completion_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestACancelledEndOnlyStopsWaiting(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	replacement := lifecycletest.UUID(1, 2)
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer))
	version := w.Instance().DesiredVersion
	changed, stop := w.Hub.Watch(end.ID)
	defer stop()
	w.MustCancel(end, "storage ("+replacement+"): NotEnrolled")
	w.Restart()
	if !lifecycletest.Woken(changed) {
		t.Error("a client that waits for the operation was not woken")
	}
	if i := w.Instance(); i.DesiredVersion != version || i.Nodes[0] != replacement {
		t.Errorf("version %d is in force with %v, want the END's %d", i.DesiredVersion, i.Nodes, version)
	}
	if n := w.Node(lifecycletest.StorageServer); n.State != api.NodeRevoked {
		t.Errorf("the server that the END retired is %s", n.State)
	}
	again := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer))
	if len(again.Targets) != 1 || again.Targets[0].NodeID != replacement {
		t.Errorf("posted again it waits for %+v, want what it waited for before", again.Targets)
	}
	w.Converge(replacement)
	w.WantState(again, api.Completed)
	w.WantState(end, api.Failed)
}

func TestACancelledWithdrawalIsTakenBack(t *testing.T) {
	for name, before := range map[string]func(*lifecycletest.World){"in progress": func(*lifecycletest.World) {}, "that awaits its END": (*lifecycletest.World).ReportAbsent} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			version := w.Instance().DesiredVersion
			start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
			before(w)
			w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesAbsent)
			w.MustCancel(start, "the previous desired state is in force again")
			w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
			if got := w.Instance().DesiredVersion; got != version {
				t.Errorf("version %d is in force, want %d", got, version)
			}
			w.Restart()
			w.Clock.Advance(time.Hour) // past its deadline
			w.Must(w.Lifecycle.Sweep(w.Ctx))
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemCancelled)
		})
	}
}

func TestACancelledStartLeavesANewerPutInForce(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	start := w.Post(lifecycletest.ShrinkingStart())
	version := w.Put(lifecycletest.NumberedSpec(20)).DesiredVersion
	w.MustCancel(start, "a newer version of the desired state is in force and stays")
	if got := w.Instance().DesiredVersion; got != version {
		t.Errorf("version %d is in force, want the PUT's %d", got, version)
	}
}

func TestANewerPutOutlivesAStartThatIsTakenBack(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	start := w.Post(lifecycletest.ShrinkingStart())
	other := lifecycletest.Spec(nil)
	other.AdditionalParams = lifecycletest.Parameters("10.20.0.0/24")
	version := w.Put(other).DesiredVersion
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	w.WantRefused(w.Operation(start.ID).Error, api.ProblemInterrupted, "a newer version of the desired state is in force and stays")
	if got := w.Instance().DesiredVersion; got != version {
		t.Errorf("version %d is in force, want the PUT's %d", got, version)
	}
}
