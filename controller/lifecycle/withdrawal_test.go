package lifecycle_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestARestartAtEveryPointOfAHealChangesNothing(t *testing.T) {
	w := lifecycletest.Registered(t)
	steps := []func(){
		func() { w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)) },
		func() {
			w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonStuckTerminating, "pv1 is not gone")
		},
		w.ReportAbsent,
		func() {
			w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
		},
		func() { w.Converge(lifecycletest.UUID(1, 2)) },
		func() { w.Converge(lifecycletest.MasterServer) },
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
		w.WantSection(lifecycletest.MasterServer, want[i].section)
	}
}
