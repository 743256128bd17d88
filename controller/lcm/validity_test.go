package lcm_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

func TestWhatAnOperationMayNotAskFor(t *testing.T) {
	twoMasters := full()
	twoMasters.Servers = append(twoMasters.Servers, server(uuid(2, 2), "master"))
	for name, c := range map[string]struct {
		change  func(*api.OperationRequest)
		pointer string
		says    string
	}{
		"no such operation":    {func(r *api.OperationRequest) { r.Operation, r.VnfcInstanceIds = "UPGRADE", nil }, "/operation", "INSTANTIATE, SCALE, HEAL, TERMINATE, CHANGE_EXT_CONN, MODIFY_INFO or CHANGE_VNFPKG"},
		"no such phase":        {func(r *api.OperationRequest) { r.Phase = "MIDDLE" }, "/phase", "START or END"},
		"a deadline of years":  {func(r *api.OperationRequest) { r.DeadlineSeconds = 1 << 30 }, "/deadlineSeconds", "86400"},
		"SCALE without a type": {func(r *api.OperationRequest) { r.Operation, r.VnfcInstanceIds = api.Scale, nil }, "/type", "SCALE_IN or SCALE_OUT"},
		"a type without SCALE": {func(r *api.OperationRequest) { r.Type = api.ScaleIn }, "/type", "belongs to SCALE"},
		"an aspect to heal":    {func(r *api.OperationRequest) { r.AspectID = "worker_instance" }, "/aspectId", "belongs to SCALE"},
		"steps to heal":        {func(r *api.OperationRequest) { r.NumberOfSteps = 1 }, "/numberOfSteps", "belongs to SCALE"},
		"servers to terminate": {func(r *api.OperationRequest) {
			r.Operation, r.VnfcInstanceIds = api.Terminate, []string{"vnfc-" + workerServer}
		}, "/vnfcInstanceIds", "belongs to HEAL and SCALE_IN"},
		"SCALE_IN START of no VNFC": {func(r *api.OperationRequest) { *r = scale(api.ScaleIn, api.PhaseStart, nil) },
			"/vnfcInstanceIds", "names the VNFC instances that leave"},
		"a broken topology": {func(r *api.OperationRequest) {
			r.Topology = full()
			r.Topology.Servers[1].ID = "master"
		}, "/topology/servers/1/id", "server id (Nova"},
		"two stacks": {func(r *api.OperationRequest) { r.StackID, r.Topology = stackTwo, full() }, "/topology/stackId", stackTwo},
		"an END that learns nothing": {func(r *api.OperationRequest) { r.Phase = api.PhaseEnd },
			"/topology", "nothing has changed since"},
		"an unknown server": {func(r *api.OperationRequest) { r.VnfcInstanceIds = []string{"vnfc-" + workerServer, "vnfc-x"} },
			"/vnfcInstanceIds/1", `"vnfc-x"`},
		"the only master":       {func(r *api.OperationRequest) { *r = heal(api.PhaseStart, nil, masterServer) }, "/vnfcInstanceIds", "names every master"},
		"the only master's END": {func(r *api.OperationRequest) { *r = heal(api.PhaseEnd, full(), masterServer) }, "/vnfcInstanceIds", "heal the entire VNF instead"},
		"every master": {func(r *api.OperationRequest) {
			*r = heal(api.PhaseStart, twoMasters, masterServer, uuid(2, 2))
		}, "/vnfcInstanceIds", uuid(2, 2)},
		"to scale the storage server": {func(r *api.OperationRequest) {
			*r = scale(api.ScaleOut, api.PhaseStart, nil)
			r.AspectID = "storage"
		}, "/aspectId", "the storage server's, which cannot be scaled"},
		"to scale an unknown aspect": {func(r *api.OperationRequest) {
			*r = scale(api.ScaleOut, api.PhaseStart, nil)
			r.AspectID = "workers"
		}, "/aspectId", "expected one of master_instance, worker_instance"},
		"to scale the storage server in": {func(r *api.OperationRequest) {
			*r = scale(api.ScaleIn, api.PhaseStart, nil)
			r.VnfcInstanceIds = []string{"vnfc-" + storageServer}
		}, "/vnfcInstanceIds/0", "cannot be scaled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			r := heal(api.PhaseStart, nil, workerServer)
			c.change(&r)
			before := w.commits()
			_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
			if faults := w.faults(err); len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %v, want one at %s that says %q", faults, c.pointer, c.says)
			}
			if before != w.commits() {
				t.Error("a refused operation wrote to the store")
			}
		})
	}
}

func TestWhatAnOperationMayAskFor(t *testing.T) {
	twoMasters := full()
	twoMasters.Servers = append(twoMasters.Servers, server(uuid(2, 2), "master"))
	noIDs := full()
	for i := range noIDs.Servers {
		noIDs.Servers[i].VnfcInstanceID = ""
	}
	for name, r := range map[string]api.OperationRequest{
		"the entire VNF":                    heal(api.PhaseStart, nil),
		"every server by name":              heal(api.PhaseStart, nil, storageServer, masterServer, workerServer),
		"one of two masters":                heal(api.PhaseStart, twoMasters, masterServer),
		"the storage server":                heal(api.PhaseStart, nil, storageServer),
		"a server by its own id":            {Operation: api.Heal, Phase: api.PhaseStart, Topology: noIDs, VnfcInstanceIds: []string{workerServer}},
		"one worker less":                   {Operation: api.Scale, Type: api.ScaleIn, Phase: api.PhaseStart, VnfcInstanceIds: []string{"vnfc-" + workerServer}},
		"a START of an operation without":   scale(api.ScaleOut, api.PhaseStart, nil),
		"INSTANTIATE of what is":            request(api.Instantiate, api.PhaseStart),
		"TERMINATE":                         request(api.Terminate, api.PhaseStart),
		"a phase that is not said, the END": {Operation: api.Terminate},
	} {
		t.Run(name, func(t *testing.T) {
			w := instantiated(t)
			if op := w.post(r); op.State != api.Completed {
				t.Errorf("the operation is %+v, want COMPLETED", op)
			}
		})
	}
}

func TestHealAndScaleNeedAnInstanceThatIsInstantiated(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	for _, r := range []api.OperationRequest{heal(api.PhaseStart, nil), scale(api.ScaleOut, api.PhaseEnd, full())} {
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
		w.refused(err, api.ProblemConflict, "NOT_INSTANTIATED", "INSTANTIATE END")
	}
}

func TestInstantiateNeedsServersWithARole(t *testing.T) {
	w := newWorld(t)
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd))
	w.refused(err, api.ProblemInvalid, "/topology: is missing and none is known")
	r := request(api.Instantiate, api.PhaseEnd)
	r.Topology = topologyOf(api.Server{ID: workerServer, Name: "other"})
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	w.refused(err, api.ProblemInvalid, "/topology/servers", `connection point "storage_server_CP" (storage)`)
	r.Partial = true // a part of a VNF is more than nothing
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	w.refused(err, api.ProblemInvalid, "/topology/servers: holds no server with a role")
	if i := w.instance(); i.State != api.NotInstantiated || len(w.operations()) != 0 {
		t.Errorf("the instance is %s after an END without any server, its operations are %+v", i.State, w.operations())
	}
	r.Partial = false
	r.Topology = topologyOf(server(storageServer, "storage"))
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	w.refused(err, api.ProblemTopologyIncomplete, "/topology/servers: no server has the role master", "no server has the role worker")
	r.Partial = true
	if op := w.post(r); op.State != api.Processing || len(op.Warnings) > 0 {
		t.Errorf("INSTANTIATE END of a partial topology is %+v, want PROCESSING without warnings", op)
	}
	w.refused(w.LCM.Instances.DeleteInstance(w.ctx, instanceID), api.ProblemOperationInProgress)
}

func saysOne(warnings []api.Fault, pointer, part string) bool {
	for _, f := range warnings {
		if f.Pointer == pointer && strings.Contains(f.Message, part) {
			return true
		}
	}
	return false
}
