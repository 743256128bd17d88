package operation_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestWhatAnOperationMayNotAskFor(t *testing.T) {
	twoMasters := lifecycletest.FullTopology()
	twoMasters.Servers = append(twoMasters.Servers, lifecycletest.Server(lifecycletest.UUID(2, 2), "master"))
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
			r.Operation, r.VnfcInstanceIds = api.Terminate, []string{"vnfc-" + lifecycletest.WorkerServer}
		}, "/vnfcInstanceIds", "belongs to HEAL and SCALE_IN"},
		"SCALE_IN START of no VNFC": {func(r *api.OperationRequest) { *r = lifecycletest.Scale(api.ScaleIn, api.PhaseStart, nil) },
			"/vnfcInstanceIds", "names the VNFC instances that leave"},
		"a broken topology": {func(r *api.OperationRequest) {
			r.Topology = lifecycletest.FullTopology()
			r.Topology.Servers[1].ID = "master"
		}, "/topology/servers/1/id", "server id (Nova"},
		"two stacks": {func(r *api.OperationRequest) {
			r.StackID, r.Topology = lifecycletest.StackTwo, lifecycletest.FullTopology()
		}, "/topology/stackId", lifecycletest.StackTwo},
		"an END that learns nothing": {func(r *api.OperationRequest) { r.Phase = api.PhaseEnd },
			"/topology", "nothing has changed since"},
		"an unknown server": {func(r *api.OperationRequest) {
			r.VnfcInstanceIds = []string{"vnfc-" + lifecycletest.WorkerServer, "vnfc-x"}
		},
			"/vnfcInstanceIds/1", `"vnfc-x"`},
		"the only master": {func(r *api.OperationRequest) {
			*r = lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.MasterServer)
		}, "/vnfcInstanceIds", "names every master"},
		"the only master's END": {func(r *api.OperationRequest) {
			*r = lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), lifecycletest.MasterServer)
		}, "/vnfcInstanceIds", "heal the entire VNF instead"},
		"every master": {func(r *api.OperationRequest) {
			*r = lifecycletest.Heal(api.PhaseStart, twoMasters, lifecycletest.MasterServer, lifecycletest.UUID(2, 2))
		}, "/vnfcInstanceIds", lifecycletest.UUID(2, 2)},
		"to scale the storage server": {func(r *api.OperationRequest) {
			*r = lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil)
			r.AspectID = "storage"
		}, "/aspectId", "the storage server's, which cannot be scaled"},
		"to scale an unknown aspect": {func(r *api.OperationRequest) {
			*r = lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil)
			r.AspectID = "workers"
		}, "/aspectId", "expected one of master_instance, worker_instance"},
		"to scale the storage server in": {func(r *api.OperationRequest) {
			*r = lifecycletest.Scale(api.ScaleIn, api.PhaseStart, nil)
			r.VnfcInstanceIds = []string{"vnfc-" + lifecycletest.StorageServer}
		}, "/vnfcInstanceIds/0", "cannot be scaled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Instantiated(t)
			r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer)
			c.change(&r)
			before := w.LastCommit()
			_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
			if faults := faults(w, err); len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %v, want one at %s that says %q", faults, c.pointer, c.says)
			}
			if before != w.LastCommit() {
				t.Error("a refused operation wrote to the store")
			}
		})
	}
}

func TestWhatAnOperationMayAskFor(t *testing.T) {
	twoMasters := lifecycletest.FullTopology()
	twoMasters.Servers = append(twoMasters.Servers, lifecycletest.Server(lifecycletest.UUID(2, 2), "master"))
	noIDs := lifecycletest.FullTopology()
	for i := range noIDs.Servers {
		noIDs.Servers[i].VnfcInstanceID = ""
	}
	for name, r := range map[string]api.OperationRequest{
		"the entire VNF":                    lifecycletest.Heal(api.PhaseStart, nil),
		"every server by name":              lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer),
		"one of two masters":                lifecycletest.Heal(api.PhaseStart, twoMasters, lifecycletest.MasterServer),
		"the storage server":                lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer),
		"a server by its own id":            {Operation: api.Heal, Phase: api.PhaseStart, Topology: noIDs, VnfcInstanceIds: []string{lifecycletest.WorkerServer}},
		"one worker less":                   {Operation: api.Scale, Type: api.ScaleIn, Phase: api.PhaseStart, VnfcInstanceIds: []string{"vnfc-" + lifecycletest.WorkerServer}},
		"a START of an operation without":   lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil),
		"INSTANTIATE of what is":            lifecycletest.Request(api.Instantiate, api.PhaseStart),
		"TERMINATE":                         lifecycletest.Request(api.Terminate, api.PhaseStart),
		"a phase that is not said, the END": {Operation: api.Terminate},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Instantiated(t)
			if op := w.Post(r); op.State != api.Completed {
				t.Errorf("the operation is %+v, want COMPLETED", op)
			}
		})
	}
}

func TestHealAndScaleNeedAnInstanceThatIsInstantiated(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	for _, r := range []api.OperationRequest{lifecycletest.Heal(api.PhaseStart, nil), lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, lifecycletest.FullTopology())} {
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
		w.WantRefused(err, api.ProblemConflict, "NOT_INSTANTIATED", "INSTANTIATE END")
	}
}

func TestInstantiateNeedsServersWithARole(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemInvalid, "/topology: is missing and none is known")
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.Topology = lifecycletest.TopologyOf(api.Server{ID: lifecycletest.WorkerServer, Name: "other"})
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers", `connection point "storage_server_CP" (storage)`)
	r.Partial = true // a part of a VNF is more than nothing
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers: holds no server with a role")
	if i := w.Instance(); i.State != api.NotInstantiated || len(w.Operations()) != 0 {
		t.Errorf("the instance is %s after an END without any server, its operations are %+v", i.State, w.Operations())
	}
	r.Partial = false
	r.Topology = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"))
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	w.WantRefused(err, api.ProblemTopologyIncomplete, "/topology/servers: no server has the role master", "no server has the role worker")
	r.Partial = true
	if op := w.Post(r); op.State != api.Processing || len(op.Warnings) > 0 {
		t.Errorf("INSTANTIATE END of a partial topology is %+v, want PROCESSING without warnings", op)
	}
	w.WantRefused(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID), api.ProblemOperationInProgress)
}
