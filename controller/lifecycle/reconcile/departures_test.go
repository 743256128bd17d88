package reconcile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAPutTakesNoMemberFromAStartThatItLeaves(t *testing.T) {
	w := lifecycletest.Clustered(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer))
	gone := lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24"), Topology: lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.SecondWorker)})
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, gone)
	w.WantRefused(err, api.ProblemOperationInProgress, start.ID, lifecycletest.WorkerServer)
	w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")}))
	w.WantAskedToLeave(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.ReportLeft(lifecycletest.MasterServer)
	w.WantState(start, api.Completed)
}
