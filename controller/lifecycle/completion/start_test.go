package completion_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestVolumesThatAreNotGoneByTheDeadlineComeBack(t *testing.T) {
	w := lifecycletest.Registered(t)
	r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)
	r.DeadlineSeconds = 60
	start := w.Post(r)
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonStuckTerminating, "PersistentVolume pv1 was deleted and is not gone")
	w.Put(lifecycletest.WithVolumes(lifecycletest.FullTopology())) // the same again: nothing changes
	w.Clock.Advance(time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	got := w.Operation(start.ID)
	w.WantRefused(got.Error, api.ProblemDeadline, "StuckTerminating", "pv1 was deleted and is not gone")
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Errorf("the section is %+v", s)
	}
}

func TestAPutInTheMiddleOfAWithdrawalCarriesItOn(t *testing.T) {
	for name, awaited := range map[string]bool{"of a START in progress": false, "of one that awaits its END": true} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
			if awaited {
				w.ReportAbsent()
			}
			version := w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")}).DesiredVersion
			w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesAbsent)
			if !awaited {
				w.ReportAbsent()
			}
			w.WantState(start, api.Completed)
			w.Clock.Advance(time.Hour)
			w.Must(w.Lifecycle.Sweep(w.Ctx))
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemInterrupted, "a newer version of the desired state is in force and stays")
			w.Converge(lifecycletest.StorageServer)
			w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
			if now := w.Instance(); now.DesiredVersion != version+1 || !strings.Contains(string(now.AdditionalParams), "10.20.0.0/24") {
				t.Errorf("version %d is in force with %s, want the PUT's parameters in version %d", now.DesiredVersion, now.AdditionalParams, version+1)
			}
		})
	}
}

// A PUT brought the new storage server, so that the END itself changes nothing for the
// master. What it is given during the END it has to do before that is over.
func TestAnEndWaitsForWhatItHasReleased(t *testing.T) {
	w := lifecycletest.Registered(t)
	w.Put(lifecycletest.WithVolumes(lifecycletest.HealedTopology(lifecycletest.UUID(1, 2))))
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.StorageServer))
	if ids := completion.TargetIDs(end.Targets); !slices.Equal(ids, []string{lifecycletest.UUID(1, 2)}) {
		t.Fatalf("targets %v, want the new storage server", ids)
	}
	w.Converge(lifecycletest.UUID(1, 2))
	if got := w.WantState(end, api.Processing); !slices.Contains(completion.TargetIDs(got.Targets), lifecycletest.MasterServer) {
		t.Errorf("targets %+v, want the master too", got.Targets)
	}
	w.Converge(lifecycletest.MasterServer)
	w.WantState(end, api.Completed)
}
