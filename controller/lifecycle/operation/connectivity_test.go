package operation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// connect is a request to change these connection points, all of them for none.
func connect(phase api.OperationPhase, t *api.Topology, names ...string) api.OperationRequest {
	return api.OperationRequest{Operation: api.ChangeExtConn, Phase: phase, Topology: t, ConnectionPointNames: names}
}

func TestAChangeOfTheStorageServersAddressWithdrawsItsVolumes(t *testing.T) {
	w := lifecycletest.Registered(t)
	start := w.Post(connect(api.PhaseStart, nil, "storage_server_CP"))
	w.WantState(start, api.Processing)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesAbsent)
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonInUse, "none is deleted: PersistentVolume pv1 is Bound")
	w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemVolumesInUse, "pv1 is Bound")
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)

	start = w.Post(connect(api.PhaseStart, nil, "storage_server_CP"))
	w.ReportAbsent()
	w.WantState(start, api.Completed)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, connect(api.PhaseEnd, nil, "unknown_CP"))
	if f := faults(w, err); f[len(f)-1].Pointer != "/connectionPointNames/0" || !strings.Contains(f[len(f)-1].Message, "expected one of masterNode_CP1, storage_server_CP, workerNode_CP2") {
		t.Errorf("a connection point that is not there: %+v", f)
	}
	end := w.Post(connect(api.PhaseEnd, lifecycletest.MovedTopology("10.10.0.9"), "storage_server_CP"))
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	if s := w.Section(lifecycletest.MasterServer); !slices.Equal(s.Servers, []string{"10.10.0.9"}) || !strings.Contains(string(s.Manifests[0]), `"server":"10.10.0.9"`) {
		t.Errorf("the section is %+v, want the new address", s)
	}
	if ids := completion.TargetIDs(w.WantState(end, api.Processing).Targets); !slices.Equal(ids, []string{lifecycletest.StorageServer, lifecycletest.MasterServer}) {
		t.Errorf("END waits for %v, want the server that moved and the master that registers", ids)
	}
	w.Converge(lifecycletest.MasterServer)
	w.WantState(end, api.Completed)
}

// What the START has seen of the stack is of before the change.
func TestTheEndOfAChangeOfAddressesObservesTheStack(t *testing.T) {
	w, c := lifecycletest.Created(t)
	w.WantState(w.Post(connect(api.PhaseStart, nil, "storage_server_CP")), api.Completed)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.MovedTopology("10.10.0.9")
	if n := c.Asks(func() { w.Post(connect(api.PhaseEnd, nil, "storage_server_CP")) }); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
	if got := w.Node(lifecycletest.StorageServer).Addresses; !slices.Equal(got, []string{"10.10.0.9"}) {
		t.Errorf("the storage server has %v, want the address that the stack has now", got)
	}
}

func TestWhichConnectionPointChangesDecidesWhatIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		points    []string
		withdrawn bool
	}{
		"the storage server's":            {[]string{"storage_server_CP"}, true},
		"the storage server's and others": {[]string{"workerNode_CP2", "storage_server_CP"}, true},
		"all":                             {nil, true},
		"the workers'":                    {[]string{"workerNode_CP2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			start := w.Post(connect(api.PhaseStart, nil, c.points...))
			if (start.State == api.Processing) != c.withdrawn || (w.Section(lifecycletest.MasterServer).State == api.PersistentVolumesAbsent) != c.withdrawn {
				t.Errorf("START is %s, the section %+v, want it withdrawn: %v", start.State, w.Section(lifecycletest.MasterServer), c.withdrawn)
			}
		})
	}
}

// An address that moves with the storage service is none of the server's own.
func TestAnAddressOfTheStackThatVolumesPointToIsTheStorageServers(t *testing.T) {
	w := lifecycletest.New(t)
	stack := lifecycletest.FullTopology()
	stack.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.100"}}, {Name: "api_CP", Addresses: []string{"10.10.0.200"}}}
	spec := lifecycletest.WithVolumes(stack)
	spec.AdditionalParams = []byte(strings.Replace(string(spec.AdditionalParams), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "vip_CP"`, 1))
	w.Put(spec)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(op, api.Completed)
	w.WantState(w.Post(connect(api.PhaseStart, nil, "api_CP")), api.Completed)
	w.WantState(w.Post(connect(api.PhaseStart, nil, "vip_CP")), api.Processing)
}

func TestAStackWithoutAStorageServerHasNothingToWithdraw(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"))))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.Partial = true
	op := w.Post(r)
	w.Converge(lifecycletest.MasterServer)
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	w.WantState(op, api.Failed) // the PersistentVolumes are withheld
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.Parameters("10.10.0.0/24")})
	op = w.Post(r)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(op, api.Completed)
	w.Put(lifecycletest.WithVolumes(nil))
	w.WantState(w.Post(connect(api.PhaseStart, nil)), api.Completed)
}

// The controller may have seen the floating address before the stack is asked.
func TestAFloatingAddressIsTheStorageServers(t *testing.T) {
	w := lifecycletest.Registered(t)
	floating := lifecycletest.FullTopology()
	floating.Servers[0].ConnectionPoints[0].FloatingAddresses = []string{"203.0.113.5"}
	r := lifecycletest.Heal(api.PhaseStart, floating, lifecycletest.StorageServer)
	w.Post(r)
	if s := w.Section(lifecycletest.MasterServer); s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, []string{"10.10.0.5", "203.0.113.5"}) {
		t.Errorf("the section is %+v, want both addresses", s)
	}
}

// MODIFY_INFO waits for what a PUT before it has changed, and needs neither servers nor
// a stack.
func TestModifyInfo(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithVolumes(nil))
	r := lifecycletest.Request(api.ModifyInfo, api.PhaseStart)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	w.WantRefused(err, api.ProblemFilesMissing, lifecycletest.ScriptFile)
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	w.WantRefused(err, api.ProblemFilesMissing, lifecycletest.ScriptFile)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	w.WantState(w.Post(r), api.Completed)
	w.WantState(w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd)), api.Completed)
	if i := w.Instance(); i.State != api.NotInstantiated {
		t.Errorf("the instance is %s", i.State)
	}

	w = lifecycletest.Registered(t)
	w.WantState(w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd)), api.Completed) // nothing has changed
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")})
	end := w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd))
	if ids := completion.TargetIDs(w.WantState(end, api.Processing).Targets); len(ids) != 3 {
		t.Errorf("END waits for %v, want every node", ids)
	}
	w.Converge(lifecycletest.StorageServer)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(end, api.Completed)
	if i := w.Instance(); i.State != api.Instantiated {
		t.Errorf("the instance is %s", i.State)
	}
}

func TestModifyInfoAsksNoCloudUnlessItNamesAStack(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	c.Away = lifecycletest.Unreachable()
	if n := c.Asks(func() { w.WantState(w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd)), api.Completed) }); n != 0 {
		t.Errorf("the cloud was asked %d times", n)
	}
	r := lifecycletest.Request(api.ModifyInfo, api.PhaseEnd)
	r.StackID = lifecycletest.StackOne
	if n := c.Asks(func() {
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
		w.WantRefused(err, api.ProblemCloudError)
	}); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
}

func TestAChangeOfThePackage(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithVolumes(lifecycletest.FullTopology()))
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.ChangeVnfPkg, api.PhaseStart))
	w.WantRefused(err, api.ProblemConflict, "CHANGE_VNFPKG needs an INSTANTIATE END that has completed")

	w = lifecycletest.Registered(t)
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.ChangeVnfPkg, api.PhaseEnd))
	if f := faults(w, err); len(f) != 1 || f[0].Pointer != "/topology" {
		t.Errorf("an END that learns nothing: %+v", f)
	}
	w.Upload(lifecycletest.ManifestFile, "no manifest")
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.ChangeVnfPkg, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, lifecycletest.ManifestFile)
	w.Clock.Advance(time.Second)
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv2"))
	w.WantState(w.Post(lifecycletest.Request(api.ChangeVnfPkg, api.PhaseStart)), api.Completed)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent) // it withdraws nothing
	r := lifecycletest.Request(api.ChangeVnfPkg, api.PhaseEnd)
	r.Topology = lifecycletest.FullTopology()
	end := w.Post(r)
	if ids := completion.TargetIDs(w.WantState(end, api.Processing).Targets); len(ids) != 3 {
		t.Errorf("END waits for %v, want every node: the file came before it", ids)
	}
	w.Converge(lifecycletest.MasterServer)
	w.WantState(end, api.Completed)
}

func TestConnectionPointsBelongToTheirOperation(t *testing.T) {
	w := lifecycletest.Registered(t)
	r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)
	r.ConnectionPointNames = []string{"storage_server_CP"}
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	if f := faults(w, err); len(f) != 1 || f[0].Pointer != "/connectionPointNames" {
		t.Errorf("%+v", f)
	}
}

// faults is every fault of a request that was refused.
func faults(w *lifecycletest.World, err error) []api.Fault {
	w.Helper()
	w.WantRefused(err, api.ProblemInvalid)
	var p *api.Problem
	errors.As(err, &p)
	return p.InvalidParams
}
