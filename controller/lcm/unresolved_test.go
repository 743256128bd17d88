package lcm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAVolumeThatACompleteStackLacksFailsTheEndAtOnce(t *testing.T) {
	w := newWorld(t)
	wrong := spec(nil)
	wrong.AdditionalParams = []byte(strings.Replace(string(wrong.AdditionalParams), `"storage_server_volume"`, `"storage_volume"`, 1))
	w.put(wrong)
	w.upload(script, "#!/bin/sh\n")
	r := request(api.Instantiate, api.PhaseEnd)
	r.Topology = full()
	op := w.post(r)
	w.refused(op.Error, api.ProblemVolumeUnresolved, `"storage_volume"`, "which has storage_server_volume", "CREATE_COMPLETE")
	w.wants(op, "FAILED volume-unresolved", "at once")
	w.converge(masterServer, workerServer) // the rest goes on
	for _, id := range []string{masterServer, workerServer} {
		if !w.node(id).Ready {
			t.Errorf("%s is not ready: %+v", id, w.node(id))
		}
	}
	w.put(spec(full()))
	retry := w.post(r)
	w.wants(retry, processing, "with the right name")
	w.converge(storageServer)
	w.wants(retry, completed, "with the volume")
}

// An END on other servers does not fail for a volume that is none of its business, and one
// without Heat's word that the stack is complete waits.
func TestAnUnresolvedVolumeThatIsNotTheEndsOwn(t *testing.T) {
	w := instantiated(t)
	away := full()
	away.Volumes, away.Servers[0].VolumeIds = nil, nil
	w.put(spec(away))
	grown := topologyOf(append(slices.Clone(away.Servers), server(uuid(3, 2), "worker"))...)
	grown.Volumes = nil
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.wants(op, processing, "for the new worker")
	w.converge(uuid(3, 2))
	w.wants(op, completed, "with the new worker")

	grown.StackStatus = ""
	whole := w.post(heal(api.PhaseEnd, grown))
	w.converge(storageServer, masterServer, workerServer, uuid(3, 2))
	w.wants(whole, processing, "without the word that the stack is complete")
	w.passes(grace)
	w.wants(whole, targetsFailed, "after the grace")
}

// MODIFY_INFO observes no stack: it may have got the volume since it was observed last.
func TestModifyInfoDoesNotFailForAStackThatItHasNotObserved(t *testing.T) {
	w := instantiated(t)
	away := full()
	away.Volumes, away.Servers[0].VolumeIds = nil, nil
	w.put(spec(away))
	op := w.post(request(api.ModifyInfo, api.PhaseEnd))
	w.wants(op, processing, "for the volume")
	w.put(spec(full()))
	w.converge(storageServer, masterServer, workerServer)
	w.wants(op, completed, "with the volume")
}
