package stack_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The servers of the stack that takes the place of the one that is gone.
var (
	newStorage, newMaster, newWorker = lifecycletest.UUID(1, 2), lifecycletest.UUID(2, 2), lifecycletest.UUID(3, 2)
	newVolume                        = lifecycletest.UUID(9, 2)
)

// madeAnew has the stack deleted and another one made of the same name, with nothing of
// the old one, as a heal of the entire VNF does.
func madeAnew(c *lifecycletest.Cloud) {
	anew := lifecycletest.TopologyOf(lifecycletest.Server(newStorage, "storage"), lifecycletest.Server(newMaster, "master"), lifecycletest.Server(newWorker, "worker"))
	anew.Volumes[0].ID, anew.Servers[0].VolumeIds = newVolume, []string{newVolume}
	delete(c.Stacks, lifecycletest.StackOne)
	c.Stacks[lifecycletest.StackTwo], c.Names["vnf-1"] = anew, lifecycletest.StackTwo
}

// A WaitCondition in the new stack waits for machines that the old one never had.
func TestMachinesOfAStackThatIsMadeAnew(t *testing.T) {
	w, c := lifecycletest.Created(t)
	w.Post(lifecycletest.Request(api.Heal, api.PhaseStart))
	delete(c.Stacks, lifecycletest.StackOne)
	delete(c.Names, "vnf-1")
	if w.Writes(func() { w.WantRefused(w.Enroll(newStorage), api.ProblemServerNotExpected) }) {
		t.Error("while there is no stack something was written")
	}
	madeAnew(c)
	c.SetStatus(lifecycletest.StackTwo, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lifecycletest.LongestPause)
	if n := c.Asks(func() { w.Must(w.Enroll(newStorage)) }); n != 2 {
		t.Errorf("the cloud was asked %d times, want twice: for the id, and for the name", n)
	}
	w.Must(w.Enroll(newMaster))
	w.Must(w.Enroll(newWorker))
	i := w.Instance()
	if i.StackID != lifecycletest.StackTwo || i.Stack.Name != "vnf-1" || len(i.Topology.Servers) != 3 || i.Topology.Volumes[0].ID != newVolume {
		t.Errorf("instance %+v with %+v, want the new stack and nothing of the old one", i, i.Topology)
	}
	w.Converge(newStorage, newMaster, newWorker)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Heal, api.PhaseEnd))
	w.WantRefused(err, api.ProblemStackInProgress)

	c.SetStatus(lifecycletest.StackTwo, "CREATE_COMPLETE", "")
	op := w.Post(lifecycletest.Request(api.Heal, api.PhaseEnd))
	if got := completion.TargetIDs(op.Targets); op.State != api.Completed || len(got) != 3 || !slices.Contains(got, newMaster) {
		t.Errorf("HEAL END is %+v, want COMPLETED by the reports of its three targets", op)
	}
	for _, id := range []string{lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		if n := w.Node(id); n.State != api.NodeRevoked {
			t.Errorf("node %+v of the old stack, want it revoked", n)
		}
	}
}

// A stack that was made anew need not be announced.
func TestAnEndFindsTheStackThatWasMadeAnew(t *testing.T) {
	w, c := lifecycletest.Created(t)
	w.Post(lifecycletest.Request(api.Heal, api.PhaseStart))
	madeAnew(c)
	op := w.Post(lifecycletest.Request(api.Heal, api.PhaseEnd))
	if w.Instance().StackID != lifecycletest.StackTwo || op.State != api.Processing || len(op.Targets) != 3 {
		t.Errorf("HEAL END is %+v of stack %s, want it to wait for the three servers of the second", op, w.Instance().StackID)
	}
}

// A stack is not taken for the instance's because of its name alone.
func TestAStackThatIsNoSuccessor(t *testing.T) {
	for name, prepare := range map[string]func(*lifecycletest.World, *lifecycletest.Cloud){
		"the instance's stack is still there": func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			before := c.Stacks[lifecycletest.StackOne]
			madeAnew(c)
			c.Stacks[lifecycletest.StackOne] = before
		},
		"its deletion is under way": func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			before := c.Stacks[lifecycletest.StackOne]
			madeAnew(c)
			c.Stacks[lifecycletest.StackOne] = before
			c.SetStatus(lifecycletest.StackOne, "DELETE_IN_PROGRESS", "")
		},
		"it is being deleted as well": func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			madeAnew(c)
			c.SetStatus(lifecycletest.StackTwo, "DELETE_IN_PROGRESS", "")
		},
		"an operation waits for servers of the one before": func(w *lifecycletest.World, c *lifecycletest.Cloud) {
			c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(append(lifecycletest.FullTopology().Servers, lifecycletest.Server(lifecycletest.UUID(3, 9), "worker"))...)
			w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
			madeAnew(c)
		},
		"the cloud is away when it is asked for the name": func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			madeAnew(c)
			c.Meanwhile = func() { c.Away = lifecycletest.Unreachable() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.Created(t)
			prepare(w, c)
			if w.Writes(func() { w.WantRefused(w.Enroll(newWorker), api.ProblemServerNotExpected) }) {
				t.Errorf("the instance is %+v", w.Instance())
			}
		})
	}
}

func TestAStackThatIsKnownByItsIDAlone(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	madeAnew(c)
	if w.Writes(func() { w.WantRefused(w.Enroll(newWorker), api.ProblemServerNotExpected) }) {
		t.Errorf("the instance is %+v", w.Instance())
	}
}

// An END that says less than "all of it is new" may not find that all of it is another's.
func TestWhoDoesNotFollowTheName(t *testing.T) {
	for _, r := range []api.OperationRequest{lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil), lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.WorkerServer)} {
		w, c := lifecycletest.Created(t)
		madeAnew(c)
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
		w.WantRefused(err, api.ProblemStackGone)
		if n := w.Node(lifecycletest.MasterServer); n.State != api.NodeEnrolled {
			t.Errorf("after %s the master is %+v", r.Describe(), n)
		}
	}
}

func TestAPutDoesNotFollowTheName(t *testing.T) {
	w, c := lifecycletest.Created(t)
	madeAnew(c)
	given := lifecycletest.FullTopology()
	given.StackID = ""
	if i := w.Put(lifecycletest.Spec(given)); i.StackID != lifecycletest.StackOne || !lifecycletest.HasFault(i.Warnings, "/stackId", "no stack "+lifecycletest.StackOne) {
		t.Errorf("instance %+v, want its stack as it was and a warning that it is gone", i)
	}
}

// Tacker's hooks name the stack by its name before it is there (v1 and v2), and by its id
// after. A heal of the entire VNF makes another one of that name.
func TestTheNameStaysWhenTheIDIsGiven(t *testing.T) {
	for _, name := range []string{"vnflcm_" + lifecycletest.InstanceID, "vnf-" + lifecycletest.InstanceID} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.InCloud(t)
			w.Put(lifecycletest.StackSpec(name))
			w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
			start := lifecycletest.Request(api.Instantiate, api.PhaseStart)
			start.StackID = name
			if op := w.Post(start); op.State != api.Completed || op.StackID != name {
				t.Errorf("INSTANTIATE START of a stack that is not there is %+v", op)
			}
			c.Stacks[lifecycletest.StackOne], c.Names[name] = lifecycletest.FullTopology(), lifecycletest.StackOne
			end := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
			end.StackID = lifecycletest.StackOne
			op := w.Post(end)
			w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
			if i := w.Instance(); w.Operation(op.ID).State != api.Completed || i.StackID != lifecycletest.StackOne || i.Stack.Name != name {
				t.Errorf("operation %+v, instance %+v, stack %+v", w.Operation(op.ID), i, i.Stack)
			}
			w.Post(lifecycletest.Heal(api.PhaseStart, nil))
			madeAnew(c)
			c.Names[name] = lifecycletest.StackTwo
			end = lifecycletest.Heal(api.PhaseEnd, nil)
			end.StackID = lifecycletest.StackTwo
			w.Post(end)
			if i := w.Instance(); i.StackID != lifecycletest.StackTwo || i.Stack.Name != name || i.State != api.Instantiated {
				t.Errorf("after the heal: instance %+v, stack %+v", i, i.Stack)
			}
		})
	}
}

// A topology that was given while no cloud was asked has what the request called the
// stack.
func TestATopologyThatKnowsItsStackByName(t *testing.T) {
	for name, then := range map[string]func(*lifecycletest.World, *lifecycletest.Cloud){
		"and by nothing else": func(*lifecycletest.World, *lifecycletest.Cloud) {},
		"and then by its id, when the cloud is away": func(w *lifecycletest.World, c *lifecycletest.Cloud) {
			c.Away = lifecycletest.Unreachable()
			w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
			c.Away = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.InCloud(t)
			given := lifecycletest.FullTopology()
			given.StackID = ""
			s := lifecycletest.Spec(given)
			s.StackID = "vnf-1"
			w.Put(s)
			then(w, c)
			grown := lifecycletest.FullTopology()
			grown.Servers[0].VnfcInstanceID = ""
			grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"), lifecycletest.Server(lifecycletest.UUID(3, 3), "worker"))
			c.Stacks[lifecycletest.StackOne], c.Names["vnf-1"] = lifecycletest.TopologyOf(grown.Servers[:4]...), lifecycletest.StackOne
			w.Must(w.Enroll(lifecycletest.UUID(3, 2)))
			c.Stacks[lifecycletest.StackOne] = grown
			w.Clock.Advance(lifecycletest.ShortestPause)
			w.Must(w.Enroll(lifecycletest.UUID(3, 3)))
			if servers := w.Instance().Topology.Servers; len(servers) != 5 || servers[0].VnfcInstanceID == "" {
				t.Errorf("the topology has %+v, want what the request gave, and two workers", servers)
			}
		})
	}
}

// If no cloud is asked, a stack may be called by its name for good.
func TestTheSamePutOfATopologyWithANameIsNotWritten(t *testing.T) {
	w := lifecycletest.New(t)
	given := lifecycletest.FullTopology()
	given.StackID = "vnf-1"
	w.Put(lifecycletest.Spec(given))
	if w.Writes(func() { w.Put(lifecycletest.Spec(given)) }) {
		t.Errorf("it was: the stack is %+v", w.Instance().Stack)
	}
}

// One answer of Heat's that was wrong is no reason to begin anew.
func TestAStackThatIsThereAfterAll(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(newWorker, "worker"))
	c.Away = api.NewProblem(api.ProblemStackGone, "there is none")
	c.Meanwhile = func() { c.Meanwhile = func() { c.Away = nil } } // from the second question on
	w.Must(w.Enroll(newWorker))
	if servers := w.Instance().Topology.Servers; len(servers) != 4 || !slices.ContainsFunc(servers, func(s api.Server) bool { return s.ID == lifecycletest.WorkerServer }) {
		t.Errorf("the topology has %+v, want what was there and the new worker", servers)
	}
}

// A PUT may name the stack that is to take the place of the present one, before it is
// made.
func TestMachinesOfAStackThatAPutHasNamed(t *testing.T) {
	w, c := lifecycletest.Created(t)
	w.Put(lifecycletest.StackSpec("vnf-2"))
	if i := w.Instance(); i.StackID != "vnf-2" || len(i.Nodes) != 3 {
		t.Fatalf("instance %+v, want the old nodes until the stack is there", i)
	}
	madeAnew(c)
	c.Names["vnf-2"] = lifecycletest.StackTwo
	c.SetStatus(lifecycletest.StackTwo, "CREATE_IN_PROGRESS", "")
	for _, id := range []string{newStorage, newMaster, newWorker} {
		w.Must(w.Enroll(id))
	}
	if i := w.Instance(); i.StackID != lifecycletest.StackTwo || i.Stack.Name != "vnf-2" || len(i.Topology.Servers) != 3 {
		t.Errorf("instance %+v with %+v, want nothing of the old stack", i, i.Topology)
	}
}

func TestANameThatIsGivenLaterIsKept(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	c.Stacks[lifecycletest.StackOne], c.Names["vnf-1"] = lifecycletest.FullTopology(), lifecycletest.StackOne
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	w.Put(lifecycletest.StackSpec("vnf-1"))
	if i := w.Instance(); i.StackID != lifecycletest.StackOne || i.Stack.Name != "vnf-1" {
		t.Errorf("instance %+v, stack %+v; want its id and its name", i, i.Stack)
	}
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	if i := w.Instance(); i.Stack.Name != "vnf-1" {
		t.Errorf("stack %+v; the id is that of the name", i.Stack)
	}
}
