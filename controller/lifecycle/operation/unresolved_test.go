package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAVolumeThatACompleteStackLacksFailsTheEndAtOnce(t *testing.T) {
	w := lifecycletest.New(t)
	wrong := lifecycletest.Spec(nil)
	wrong.AdditionalParams = []byte(strings.Replace(string(wrong.AdditionalParams), `"storage_server_volume"`, `"storage_volume"`, 1))
	w.Put(wrong)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.Topology = lifecycletest.FullTopology()
	op := w.Post(r)
	w.WantRefused(op.Error, api.ProblemVolumeUnresolved, `"storage_volume"`, "which has storage_server_volume", "CREATE_COMPLETE")
	w.WantOutcome(op, "FAILED volume-unresolved", "at once")
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer) // the rest goes on
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		if !w.Node(id).Ready {
			t.Errorf("%s is not ready: %+v", id, w.Node(id))
		}
	}
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	retry := w.Post(r)
	w.WantOutcome(retry, lifecycletest.Processing, "with the right name")
	w.Converge(lifecycletest.StorageServer)
	w.WantOutcome(retry, lifecycletest.Completed, "with the volume")
}

// An END on other servers does not fail for a volume that is none of its business, and one
// without Heat's word that the stack is complete waits.
func TestAnUnresolvedVolumeThatIsNotTheEndsOwn(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	away := lifecycletest.FullTopology()
	away.Volumes, away.Servers[0].VolumeIds = nil, nil
	w.Put(lifecycletest.Spec(away))
	grown := lifecycletest.TopologyOf(append(slices.Clone(away.Servers), lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))...)
	grown.Volumes = nil
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.WantOutcome(op, lifecycletest.Processing, "for the new worker")
	w.Converge(lifecycletest.UUID(3, 2))
	w.WantOutcome(op, lifecycletest.Completed, "with the new worker")

	grown.StackStatus = ""
	whole := w.Post(lifecycletest.Heal(api.PhaseEnd, grown))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer, lifecycletest.UUID(3, 2))
	w.WantOutcome(whole, lifecycletest.Processing, "without the word that the stack is complete")
	w.Wait(lifecycletest.Grace)
	w.WantOutcome(whole, lifecycletest.TargetsFailed, "after the grace")
}

// MODIFY_INFO observes no stack: it may have got the volume since it was observed last.
func TestModifyInfoDoesNotFailForAStackThatItHasNotObserved(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	away := lifecycletest.FullTopology()
	away.Volumes, away.Servers[0].VolumeIds = nil, nil
	w.Put(lifecycletest.Spec(away))
	op := w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	w.WantOutcome(op, lifecycletest.Processing, "for the volume")
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.WantOutcome(op, lifecycletest.Completed, "with the volume")
}
