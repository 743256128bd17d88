package lcm_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The servers of the stack that takes the place of the one that is gone.
var (
	newStorage, newMaster, newWorker = uuid(1, 2), uuid(2, 2), uuid(3, 2)
	newVolume                        = uuid(9, 2)
)

// madeAnew has the stack deleted and another one made of the same name, with nothing of
// the old one, as a heal of the entire VNF does.
func (c *cloud) madeAnew() {
	anew := topologyOf(server(newStorage, "storage"), server(newMaster, "master"), server(newWorker, "worker"))
	anew.Volumes[0].ID, anew.Servers[0].VolumeIds = newVolume, []string{newVolume}
	delete(c.stacks, stackOne)
	c.stacks[stackTwo], c.names["vnf-1"] = anew, stackTwo
}

// A WaitCondition in the new stack waits for machines that the old one never had.
func TestMachinesOfAStackThatIsMadeAnew(t *testing.T) {
	w, c := created(t)
	w.post(request(api.Heal, api.PhaseStart))
	delete(c.stacks, stackOne)
	delete(c.names, "vnf-1")
	if w.writes(func() { w.notLetIn(w.enroll(newStorage)) }) {
		t.Error("while there is no stack something was written")
	}
	c.madeAnew()
	c.status(stackTwo, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(longestPause)
	if n := c.asks(func() { w.must(w.enroll(newStorage)) }); n != 2 {
		t.Errorf("the cloud was asked %d times, want twice: for the id, and for the name", n)
	}
	w.must(w.enroll(newMaster))
	w.must(w.enroll(newWorker))
	i := w.instance()
	if i.StackID != stackTwo || i.Stack.Name != "vnf-1" || len(i.Topology.Servers) != 3 || i.Topology.Volumes[0].ID != newVolume {
		t.Errorf("instance %+v with %+v, want the new stack and nothing of the old one", i, i.Topology)
	}
	w.converge(newStorage, newMaster, newWorker)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Heal, api.PhaseEnd))
	w.refused(err, api.ProblemStackInProgress)

	c.status(stackTwo, "CREATE_COMPLETE", "")
	op := w.post(request(api.Heal, api.PhaseEnd))
	if got := reconcile.TargetIDs(op.Targets); op.State != api.Completed || len(got) != 3 || !slices.Contains(got, newMaster) {
		t.Errorf("HEAL END is %+v, want COMPLETED by the reports of its three targets", op)
	}
	for _, id := range []string{storageServer, masterServer, workerServer} {
		if n := w.node(id); n.State != api.NodeRevoked {
			t.Errorf("node %+v of the old stack, want it revoked", n)
		}
	}
}

// A stack that was made anew need not be announced.
func TestAnEndFindsTheStackThatWasMadeAnew(t *testing.T) {
	w, c := created(t)
	w.post(request(api.Heal, api.PhaseStart))
	c.madeAnew()
	op := w.post(request(api.Heal, api.PhaseEnd))
	if w.instance().StackID != stackTwo || op.State != api.Processing || len(op.Targets) != 3 {
		t.Errorf("HEAL END is %+v of stack %s, want it to wait for the three servers of the second", op, w.instance().StackID)
	}
}

// A stack is not taken for the instance's because of its name alone.
func TestAStackThatIsNoSuccessor(t *testing.T) {
	for name, prepare := range map[string]func(*world, *cloud){
		"the instance's stack is still there": func(_ *world, c *cloud) {
			before := c.stacks[stackOne]
			c.madeAnew()
			c.stacks[stackOne] = before
		},
		"its deletion is under way": func(_ *world, c *cloud) {
			before := c.stacks[stackOne]
			c.madeAnew()
			c.stacks[stackOne] = before
			c.status(stackOne, "DELETE_IN_PROGRESS", "")
		},
		"it is being deleted as well": func(_ *world, c *cloud) {
			c.madeAnew()
			c.status(stackTwo, "DELETE_IN_PROGRESS", "")
		},
		"an operation waits for servers of the one before": func(w *world, c *cloud) {
			c.stacks[stackOne] = topologyOf(append(full().Servers, server(uuid(3, 9), "worker"))...)
			w.post(scale(api.ScaleOut, api.PhaseEnd, nil))
			c.madeAnew()
		},
		"the cloud is away when it is asked for the name": func(_ *world, c *cloud) {
			c.madeAnew()
			c.meanwhile = func() { c.away = unreachable() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := created(t)
			prepare(w, c)
			if w.writes(func() { w.notLetIn(w.enroll(newWorker)) }) {
				t.Errorf("the instance is %+v", w.instance())
			}
		})
	}
}

func TestAStackThatIsKnownByItsIDAlone(t *testing.T) {
	w, c := inCloud(t)
	c.stacks[stackOne] = full()
	w.put(stackSpec(stackOne))
	c.madeAnew()
	if w.writes(func() { w.notLetIn(w.enroll(newWorker)) }) {
		t.Errorf("the instance is %+v", w.instance())
	}
}

// An END that says less than "all of it is new" may not find that all of it is another's.
func TestWhoDoesNotFollowTheName(t *testing.T) {
	for _, r := range []api.OperationRequest{scale(api.ScaleOut, api.PhaseEnd, nil), heal(api.PhaseEnd, nil, workerServer)} {
		w, c := created(t)
		c.madeAnew()
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
		w.refused(err, api.ProblemStackGone)
		if n := w.node(masterServer); n.State != api.NodeEnrolled {
			t.Errorf("after %s the master is %+v", r.Describe(), n)
		}
	}
}

func TestAPutDoesNotFollowTheName(t *testing.T) {
	w, c := created(t)
	c.madeAnew()
	given := full()
	given.StackID = ""
	if i := w.put(spec(given)); i.StackID != stackOne || !saysOne(i.Warnings, "/stackId", "no stack "+stackOne) {
		t.Errorf("instance %+v, want its stack as it was and a warning that it is gone", i)
	}
}

// Tacker's hooks name the stack by its name before it is there (v1 and v2), and by its id
// after. A heal of the entire VNF makes another one of that name.
func TestTheNameStaysWhenTheIDIsGiven(t *testing.T) {
	for _, name := range []string{"vnflcm_" + instanceID, "vnf-" + instanceID} {
		t.Run(name, func(t *testing.T) {
			w, c := inCloud(t)
			w.put(stackSpec(name))
			w.upload(script, "#!/bin/sh\n")
			start := request(api.Instantiate, api.PhaseStart)
			start.StackID = name
			if op := w.post(start); op.State != api.Completed || op.StackID != name {
				t.Errorf("INSTANTIATE START of a stack that is not there is %+v", op)
			}
			c.stacks[stackOne], c.names[name] = full(), stackOne
			end := request(api.Instantiate, api.PhaseEnd)
			end.StackID = stackOne
			op := w.post(end)
			w.converge(storageServer, masterServer, workerServer)
			if i := w.instance(); w.operation(op.ID).State != api.Completed || i.StackID != stackOne || i.Stack.Name != name {
				t.Errorf("operation %+v, instance %+v, stack %+v", w.operation(op.ID), i, i.Stack)
			}
			w.post(heal(api.PhaseStart, nil))
			c.madeAnew()
			c.names[name] = stackTwo
			end = heal(api.PhaseEnd, nil)
			end.StackID = stackTwo
			w.post(end)
			if i := w.instance(); i.StackID != stackTwo || i.Stack.Name != name || i.State != api.Instantiated {
				t.Errorf("after the heal: instance %+v, stack %+v", i, i.Stack)
			}
		})
	}
}

// A topology that was given while no cloud was asked has what the request called the
// stack.
func TestATopologyThatKnowsItsStackByName(t *testing.T) {
	for name, then := range map[string]func(*world, *cloud){
		"and by nothing else": func(*world, *cloud) {},
		"and then by its id, when the cloud is away": func(w *world, c *cloud) {
			c.away = unreachable()
			w.put(stackSpec(stackOne))
			c.away = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := inCloud(t)
			given := full()
			given.StackID = ""
			s := spec(given)
			s.StackID = "vnf-1"
			w.put(s)
			then(w, c)
			grown := full()
			grown.Servers[0].VnfcInstanceID = ""
			grown.Servers = append(grown.Servers, server(uuid(3, 2), "worker"), server(uuid(3, 3), "worker"))
			c.stacks[stackOne], c.names["vnf-1"] = topologyOf(grown.Servers[:4]...), stackOne
			w.must(w.enroll(uuid(3, 2)))
			c.stacks[stackOne] = grown
			w.Clock.Advance(shortestPause)
			w.must(w.enroll(uuid(3, 3)))
			if servers := w.instance().Topology.Servers; len(servers) != 5 || servers[0].VnfcInstanceID == "" {
				t.Errorf("the topology has %+v, want what the request gave, and two workers", servers)
			}
		})
	}
}

// If no cloud is asked, a stack may be called by its name for good.
func TestTheSamePutOfATopologyWithANameIsNotWritten(t *testing.T) {
	w := newWorld(t)
	given := full()
	given.StackID = "vnf-1"
	w.put(spec(given))
	if w.writes(func() { w.put(spec(given)) }) {
		t.Errorf("it was: the stack is %+v", w.instance().Stack)
	}
}

// One answer of Heat's that was wrong is no reason to begin anew.
func TestAStackThatIsThereAfterAll(t *testing.T) {
	w, c := created(t)
	c.stacks[stackOne] = topologyOf(server(storageServer, "storage"), server(masterServer, "master"), server(newWorker, "worker"))
	c.away = api.NewProblem(api.ProblemStackGone, "there is none")
	c.meanwhile = func() { c.meanwhile = func() { c.away = nil } } // from the second question on
	w.must(w.enroll(newWorker))
	if servers := w.instance().Topology.Servers; len(servers) != 4 || !slices.ContainsFunc(servers, func(s api.Server) bool { return s.ID == workerServer }) {
		t.Errorf("the topology has %+v, want what was there and the new worker", servers)
	}
}

// A PUT may name the stack that is to take the place of the present one, before it is
// made.
func TestMachinesOfAStackThatAPutHasNamed(t *testing.T) {
	w, c := created(t)
	w.put(stackSpec("vnf-2"))
	if i := w.instance(); i.StackID != "vnf-2" || len(i.Nodes) != 3 {
		t.Fatalf("instance %+v, want the old nodes until the stack is there", i)
	}
	c.madeAnew()
	c.names["vnf-2"] = stackTwo
	c.status(stackTwo, "CREATE_IN_PROGRESS", "")
	for _, id := range []string{newStorage, newMaster, newWorker} {
		w.must(w.enroll(id))
	}
	if i := w.instance(); i.StackID != stackTwo || i.Stack.Name != "vnf-2" || len(i.Topology.Servers) != 3 {
		t.Errorf("instance %+v with %+v, want nothing of the old stack", i, i.Topology)
	}
}

func TestANameThatIsGivenLaterIsKept(t *testing.T) {
	w, c := inCloud(t)
	c.stacks[stackOne], c.names["vnf-1"] = full(), stackOne
	w.put(stackSpec(stackOne))
	w.put(stackSpec("vnf-1"))
	if i := w.instance(); i.StackID != stackOne || i.Stack.Name != "vnf-1" {
		t.Errorf("instance %+v, stack %+v; want its id and its name", i, i.Stack)
	}
	w.put(stackSpec(stackOne))
	if i := w.instance(); i.Stack.Name != "vnf-1" {
		t.Errorf("stack %+v; the id is that of the name", i.Stack)
	}
}
