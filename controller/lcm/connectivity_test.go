package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// connect is a request to change these connection points, all of them for none.
func connect(phase api.OperationPhase, t *api.Topology, names ...string) api.OperationRequest {
	return api.OperationRequest{Operation: api.ChangeExtConn, Phase: phase, Topology: t, ConnectionPointNames: names}
}

// moved is the stack with the storage server at another address.
func moved(address string) *api.Topology {
	t := full()
	t.Servers[0].ConnectionPoints[0].Addresses = []string{address}
	return t
}

func TestAChangeOfTheStorageServersAddressWithdrawsItsVolumes(t *testing.T) {
	w := registered(t)
	start := w.post(connect(api.PhaseStart, nil, "storage_server_CP"))
	w.wantState(start, api.Processing)
	w.wantSection(masterServer, api.PersistentVolumesAbsent)
	w.says(masterServer, api.ConditionFalse, api.ReasonInUse, "none is deleted: PersistentVolume pv1 is Bound")
	w.refused(w.wantState(start, api.Failed).Error, api.ProblemVolumesInUse, "pv1 is Bound")
	w.wantSection(masterServer, api.PersistentVolumesPresent)

	start = w.post(connect(api.PhaseStart, nil, "storage_server_CP"))
	w.absent()
	w.wantState(start, api.Completed)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, connect(api.PhaseEnd, nil, "unknown_CP"))
	if f := w.faults(err); f[len(f)-1].Pointer != "/connectionPointNames/0" || !strings.Contains(f[len(f)-1].Message, "expected one of masterNode_CP1, storage_server_CP, workerNode_CP2") {
		t.Errorf("a connection point that is not there: %+v", f)
	}
	end := w.post(connect(api.PhaseEnd, moved("10.10.0.9"), "storage_server_CP"))
	w.wantSection(masterServer, api.PersistentVolumesPresent)
	if s := w.section(masterServer); !slices.Equal(s.Servers, []string{"10.10.0.9"}) || !strings.Contains(string(s.Manifests[0]), `"server":"10.10.0.9"`) {
		t.Errorf("the section is %+v, want the new address", s)
	}
	if ids := reconcile.TargetIDs(w.wantState(end, api.Processing).Targets); !slices.Equal(ids, []string{storageServer, masterServer}) {
		t.Errorf("END waits for %v, want the server that moved and the master that registers", ids)
	}
	w.converge(masterServer)
	w.wantState(end, api.Completed)
}

// What the START has seen of the stack is of before the change.
func TestTheEndOfAChangeOfAddressesObservesTheStack(t *testing.T) {
	w, c := created(t)
	w.wantState(w.post(connect(api.PhaseStart, nil, "storage_server_CP")), api.Completed)
	c.stacks[stackOne] = moved("10.10.0.9")
	if n := c.asks(func() { w.post(connect(api.PhaseEnd, nil, "storage_server_CP")) }); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
	if got := w.node(storageServer).Addresses; !slices.Equal(got, []string{"10.10.0.9"}) {
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
			w := registered(t)
			start := w.post(connect(api.PhaseStart, nil, c.points...))
			if (start.State == api.Processing) != c.withdrawn || (w.section(masterServer).State == api.PersistentVolumesAbsent) != c.withdrawn {
				t.Errorf("START is %s, the section %+v, want it withdrawn: %v", start.State, w.section(masterServer), c.withdrawn)
			}
		})
	}
}

// An address that moves with the storage service is none of the server's own.
func TestAnAddressOfTheStackThatVolumesPointToIsTheStorageServers(t *testing.T) {
	w := newWorld(t)
	stack := full()
	stack.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.100"}}, {Name: "api_CP", Addresses: []string{"10.10.0.200"}}}
	spec := withVolumes(stack)
	spec.AdditionalParams = []byte(strings.Replace(string(spec.AdditionalParams), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "vip_CP"`, 1))
	w.put(spec)
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer, masterServer, workerServer)
	w.converge(masterServer)
	w.wantState(op, api.Completed)
	w.wantState(w.post(connect(api.PhaseStart, nil, "api_CP")), api.Completed)
	w.wantState(w.post(connect(api.PhaseStart, nil, "vip_CP")), api.Processing)
}

func TestAStackWithoutAStorageServerHasNothingToWithdraw(t *testing.T) {
	w := newWorld(t)
	w.put(withVolumes(topologyOf(server(masterServer, "master"))))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	r := request(api.Instantiate, api.PhaseEnd)
	r.Partial = true
	op := w.post(r)
	w.converge(masterServer)
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	w.wantState(op, api.Failed) // the PersistentVolumes are withheld
	w.put(api.InstanceSpec{AdditionalParams: parameters("10.10.0.0/24")})
	op = w.post(r)
	w.converge(masterServer)
	w.wantState(op, api.Completed)
	w.put(withVolumes(nil))
	w.wantState(w.post(connect(api.PhaseStart, nil)), api.Completed)
}

// The controller may have seen the floating address before the stack is asked.
func TestAFloatingAddressIsTheStorageServers(t *testing.T) {
	w := registered(t)
	floating := full()
	floating.Servers[0].ConnectionPoints[0].FloatingAddresses = []string{"203.0.113.5"}
	r := heal(api.PhaseStart, floating, storageServer)
	w.post(r)
	if s := w.section(masterServer); s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, []string{"10.10.0.5", "203.0.113.5"}) {
		t.Errorf("the section is %+v, want both addresses", s)
	}
}

// MODIFY_INFO waits for what a PUT before it has changed, and needs neither servers nor
// a stack.
func TestModifyInfo(t *testing.T) {
	w := newWorld(t)
	w.put(withVolumes(nil))
	r := request(api.ModifyInfo, api.PhaseStart)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	w.refused(err, api.ProblemFilesMissing, script)
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.ModifyInfo, api.PhaseEnd))
	w.refused(err, api.ProblemFilesMissing, script)
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	w.wantState(w.post(r), api.Completed)
	w.wantState(w.post(request(api.ModifyInfo, api.PhaseEnd)), api.Completed)
	if i := w.instance(); i.State != api.NotInstantiated {
		t.Errorf("the instance is %s", i.State)
	}

	w = registered(t)
	w.wantState(w.post(request(api.ModifyInfo, api.PhaseEnd)), api.Completed) // nothing has changed
	w.put(api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")})
	end := w.post(request(api.ModifyInfo, api.PhaseEnd))
	if ids := reconcile.TargetIDs(w.wantState(end, api.Processing).Targets); len(ids) != 3 {
		t.Errorf("END waits for %v, want every node", ids)
	}
	w.converge(storageServer)
	w.converge(masterServer)
	w.wantState(end, api.Completed)
	if i := w.instance(); i.State != api.Instantiated {
		t.Errorf("the instance is %s", i.State)
	}
}

func TestModifyInfoAsksNoCloudUnlessItNamesAStack(t *testing.T) {
	w, c := inCloud(t)
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	c.away = unreachable()
	if n := c.asks(func() { w.wantState(w.post(request(api.ModifyInfo, api.PhaseEnd)), api.Completed) }); n != 0 {
		t.Errorf("the cloud was asked %d times", n)
	}
	r := request(api.ModifyInfo, api.PhaseEnd)
	r.StackID = stackOne
	if n := c.asks(func() {
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
		w.refused(err, api.ProblemCloudError)
	}); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
}

func TestAChangeOfThePackage(t *testing.T) {
	w := newWorld(t)
	w.put(withVolumes(full()))
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.ChangeVnfPkg, api.PhaseStart))
	w.refused(err, api.ProblemConflict, "CHANGE_VNFPKG needs an INSTANTIATE END that has completed")

	w = registered(t)
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.ChangeVnfPkg, api.PhaseEnd))
	if f := w.faults(err); len(f) != 1 || f[0].Pointer != "/topology" {
		t.Errorf("an END that learns nothing: %+v", f)
	}
	w.upload(manifestFile, "no manifest")
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.ChangeVnfPkg, api.PhaseStart))
	w.refused(err, api.ProblemFilesMissing, manifestFile)
	w.Clock.Advance(time.Second)
	w.upload(manifestFile, manifestOf("pv2"))
	w.wantState(w.post(request(api.ChangeVnfPkg, api.PhaseStart)), api.Completed)
	w.wantSection(masterServer, api.PersistentVolumesPresent) // it withdraws nothing
	r := request(api.ChangeVnfPkg, api.PhaseEnd)
	r.Topology = full()
	end := w.post(r)
	if ids := reconcile.TargetIDs(w.wantState(end, api.Processing).Targets); len(ids) != 3 {
		t.Errorf("END waits for %v, want every node: the file came before it", ids)
	}
	w.converge(masterServer)
	w.wantState(end, api.Completed)
}

func TestConnectionPointsBelongToTheirOperation(t *testing.T) {
	w := registered(t)
	r := heal(api.PhaseStart, nil, storageServer)
	r.ConnectionPointNames = []string{"storage_server_CP"}
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	if f := w.faults(err); len(f) != 1 || f[0].Pointer != "/connectionPointNames" {
		t.Errorf("%+v", f)
	}
}
