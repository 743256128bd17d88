package reconcile_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestACancelledEndOnlyStopsWaiting(t *testing.T) {
	w := lcmtest.Instantiated(t)
	replacement := lcmtest.UUID(1, 2)
	end := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(replacement), lcmtest.StorageServer))
	version := w.Instance().DesiredVersion
	changed, stop := w.Hub.Watch(end.ID)
	defer stop()
	w.MustCancel(end, "storage ("+replacement+"): NotEnrolled")
	w.Restart()
	if !lcmtest.Woken(changed) {
		t.Error("a client that waits for the operation was not woken")
	}
	if i := w.Instance(); i.DesiredVersion != version || i.Nodes[0] != replacement {
		t.Errorf("version %d is in force with %v, want the END's %d", i.DesiredVersion, i.Nodes, version)
	}
	if n := w.Node(lcmtest.StorageServer); n.State != api.NodeRevoked {
		t.Errorf("the server that the END retired is %s", n.State)
	}
	again := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(replacement), lcmtest.StorageServer))
	if len(again.Targets) != 1 || again.Targets[0].NodeID != replacement {
		t.Errorf("posted again it waits for %+v, want what it waited for before", again.Targets)
	}
	w.Converge(replacement)
	w.WantState(again, api.Completed)
	w.WantState(end, api.Failed)
}

func TestACancelledWithdrawalIsTakenBack(t *testing.T) {
	for name, before := range map[string]func(*lcmtest.World){"in progress": func(*lcmtest.World) {}, "that awaits its END": (*lcmtest.World).ReportAbsent} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Registered(t)
			version := w.Instance().DesiredVersion
			start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
			before(w)
			w.WantSection(lcmtest.MasterServer, api.PersistentVolumesAbsent)
			w.MustCancel(start, "the previous desired state is in force again")
			w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
			if got := w.Instance().DesiredVersion; got != version {
				t.Errorf("version %d is in force, want %d", got, version)
			}
			w.Restart()
			w.Clock.Advance(time.Hour) // past its deadline
			w.Must(w.LCM.Sweep(w.Ctx))
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemCancelled)
		})
	}
}

func TestACancelledStartLeavesANewerPutInForce(t *testing.T) {
	w := lcmtest.Instantiated(t)
	start := w.Post(lcmtest.ShrinkingStart())
	version := w.Put(lcmtest.NumberedSpec(20)).DesiredVersion
	w.MustCancel(start, "a newer version of the desired state is in force and stays")
	if got := w.Instance().DesiredVersion; got != version {
		t.Errorf("version %d is in force, want the PUT's %d", got, version)
	}
}
