package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAVolumeThatACompleteStackLacksFailsTheEndAtOnce(t *testing.T) {
	w := lcmtest.New(t)
	wrong := lcmtest.Spec(nil)
	wrong.AdditionalParams = []byte(strings.Replace(string(wrong.AdditionalParams), `"storage_server_volume"`, `"storage_volume"`, 1))
	w.Put(wrong)
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	r.Topology = lcmtest.FullTopology()
	op := w.Post(r)
	w.WantRefused(op.Error, api.ProblemVolumeUnresolved, `"storage_volume"`, "which has storage_server_volume", "CREATE_COMPLETE")
	w.WantOutcome(op, "FAILED volume-unresolved", "at once")
	w.Converge(lcmtest.MasterServer, lcmtest.WorkerServer) // the rest goes on
	for _, id := range []string{lcmtest.MasterServer, lcmtest.WorkerServer} {
		if !w.Node(id).Ready {
			t.Errorf("%s is not ready: %+v", id, w.Node(id))
		}
	}
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	retry := w.Post(r)
	w.WantOutcome(retry, lcmtest.Processing, "with the right name")
	w.Converge(lcmtest.StorageServer)
	w.WantOutcome(retry, lcmtest.Completed, "with the volume")
}

// An END on other servers does not fail for a volume that is none of its business, and one
// without Heat's word that the stack is complete waits.
func TestAnUnresolvedVolumeThatIsNotTheEndsOwn(t *testing.T) {
	w := lcmtest.Instantiated(t)
	away := lcmtest.FullTopology()
	away.Volumes, away.Servers[0].VolumeIds = nil, nil
	w.Put(lcmtest.Spec(away))
	grown := lcmtest.TopologyOf(append(slices.Clone(away.Servers), lcmtest.Server(lcmtest.UUID(3, 2), "worker"))...)
	grown.Volumes = nil
	op := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.WantOutcome(op, lcmtest.Processing, "for the new worker")
	w.Converge(lcmtest.UUID(3, 2))
	w.WantOutcome(op, lcmtest.Completed, "with the new worker")

	grown.StackStatus = ""
	whole := w.Post(lcmtest.Heal(api.PhaseEnd, grown))
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer, lcmtest.UUID(3, 2))
	w.WantOutcome(whole, lcmtest.Processing, "without the word that the stack is complete")
	w.Wait(lcmtest.Grace)
	w.WantOutcome(whole, lcmtest.TargetsFailed, "after the grace")
}

// MODIFY_INFO observes no stack: it may have got the volume since it was observed last.
func TestModifyInfoDoesNotFailForAStackThatItHasNotObserved(t *testing.T) {
	w := lcmtest.Instantiated(t)
	away := lcmtest.FullTopology()
	away.Volumes, away.Servers[0].VolumeIds = nil, nil
	w.Put(lcmtest.Spec(away))
	op := w.Post(lcmtest.Request(api.ModifyInfo, api.PhaseEnd))
	w.WantOutcome(op, lcmtest.Processing, "for the volume")
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	w.WantOutcome(op, lcmtest.Completed, "with the volume")
}
