package lcm_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The ids of stacks.
const (
	stackOne   = "35dc4b0e-9e42-4d9f-a14d-c80f63540001"
	stackTwo   = "35dc4b0e-9e42-4d9f-a14d-c80f63540002"
	stackThree = "35dc4b0e-9e42-4d9f-a14d-c80f63540003"
)

// cloud is a Source with stacks that the test makes. It is asked as Heat is: what a
// request gives is completed, which here means only that the stack has to be there.
type cloud struct {
	// stacks has each stack by its id, names the id of each by its name.
	stacks map[string]*api.Topology
	names  map[string]string
	// away is why nothing is answered, nil if all is well.
	away error
	// asked is what was asked for, in order. meanwhile is done while it is.
	asked     []stack.Request
	meanwhile func()
}

func (c *cloud) Resolve(ctx context.Context, r stack.Request) (*api.Topology, error) {
	if r.StackID == "" {
		return stack.Inline{}.Resolve(ctx, r)
	}
	c.asked = append(c.asked, r)
	id := r.StackID
	if named, ok := c.names[id]; ok {
		id = named
	}
	found := topology.Normalize(c.stacks[id])
	if do := c.meanwhile; do != nil {
		c.meanwhile = nil
		do()
	}
	switch {
	case c.away != nil:
		return nil, c.away
	case found == nil:
		return nil, api.NewProblem(api.ProblemStackGone, "the cloud has no stack "+r.StackID)
	case r.Inline != nil:
		return stack.Inline{}.Resolve(ctx, r)
	}
	found.StackID = id
	return found, nil
}

// asks is how often the cloud is asked while fn runs.
func (c *cloud) asks(fn func()) int {
	before := len(c.asked)
	fn()
	return len(c.asked) - before
}

// unreachable is what a source says of a cloud that does not answer.
func unreachable() error { return api.NewProblem(api.ProblemCloudError, "Heat does not answer") }

// inCloud is a world whose controller has a cloud.
func inCloud(t tester) (*world, *cloud) {
	t.Helper()
	w := newWorld(t)
	c := &cloud{stacks: map[string]*api.Topology{}, names: map[string]string{}}
	w.Source = c
	w.LCM.Instances.Observer.Source = c
	return w, c
}

// stackSpec is the parameters with the stack that they are for.
func stackSpec(stackID string) api.InstanceSpec {
	s := spec(nil)
	s.StackID = stackID
	return s
}

// created is an instance of the stack, all of whose servers are ready; not even its
// first request has a topology.
func created(t tester) (*world, *cloud) {
	t.Helper()
	w, c := inCloud(t)
	w.put(stackSpec("vnf-1"))
	w.upload(script, "#!/bin/sh\n")
	w.post(request(api.Instantiate, api.PhaseStart))
	c.stacks[stackOne], c.names["vnf-1"] = full(), stackOne
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer, masterServer, workerServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w, c
}

// status has the stack be in this state.
func (c *cloud) status(id, status, reason string) {
	t := *c.stacks[id]
	t.StackStatus, t.StackStatusReason = status, reason
	c.stacks[id] = &t
}

func TestAPutComesBeforeItsStack(t *testing.T) {
	w, c := inCloud(t)
	i := w.put(stackSpec("vnf-1"))
	if i.StackID != "vnf-1" || i.Topology != nil || !saysOne(i.Warnings, "/stackId", "the cloud has no stack vnf-1") {
		t.Errorf("instance %+v, want the stack as it was named, and a warning that it is not there", i)
	}
	if w.writes(func() { w.put(stackSpec("vnf-1")) }) {
		t.Error("the same PUT again was written")
	}
	w.upload(script, "#!/bin/sh\n")
	start := w.post(request(api.Instantiate, api.PhaseStart))
	if start.State != api.Completed || !saysOne(start.Warnings, "/stackId", "the cloud has no stack vnf-1") {
		t.Errorf("INSTANTIATE START is %+v, want COMPLETED with a warning", start)
	}
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd))
	w.refused(err, api.ProblemStackGone, "vnf-1")
	c.stacks[stackOne], c.names["vnf-1"] = full(), stackOne
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	i = w.instance()
	if op.StackID != stackOne || i.StackID != stackOne || len(i.Nodes) != 3 || len(i.Warnings) != 0 {
		t.Errorf("operation of stack %q, instance %+v; want the stack's id and servers, and no warning any more", op.StackID, i)
	}
	if s := i.Stack; s == nil || s.Name != "vnf-1" || s.Status != "CREATE_COMPLETE" || s.Source != api.ObservedByHeat || !s.ObservedAt.Equal(w.Clock.Now()) {
		t.Errorf("the stack is shown as %+v", i.Stack)
	}
	// A hook that still gives the name means the same stack.
	if w.writes(func() { w.put(stackSpec("vnf-1")) }) || w.instance().StackID != stackOne {
		t.Errorf("the name again changed the instance: %+v", w.instance())
	}
}

func TestAPutNeedsNoCloudForItsParameters(t *testing.T) {
	w, c := created(t)
	c.away = unreachable()
	other := stackSpec("vnf-1")
	other.AdditionalParams = parameters("10.20.0.0/24")
	i := w.put(other)
	if i.StackID != stackOne || len(i.Nodes) != 3 || !saysOne(i.Warnings, "/stackId", "Heat does not answer") || i.Stack.Status != "CREATE_COMPLETE" {
		t.Errorf("instance %+v (stack %+v), want it as it was with a warning", i, i.Stack)
	}
	if config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer); err != nil || config.Storage.Exports[0].Client != "10.20.0.0/24" {
		t.Errorf("the parameters are not in force: %+v, %v", config, err)
	}
	// What it says of servers would be half a topology.
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, spec(full()))
	w.refused(err, api.ProblemCloudError, "Heat does not answer")
	c.away = nil
	if i := w.put(other); len(i.Warnings) != 0 {
		t.Errorf("warnings %v, want none any more", i.Warnings)
	}
}

func TestAPutWithoutAStackLeavesItAsItIsKnown(t *testing.T) {
	w, c := created(t)
	c.stacks[stackOne] = topologyOf(server(masterServer, "master"))
	if n := c.asks(func() { w.put(spec(nil)) }); n != 0 || len(w.instance().Nodes) != 3 {
		t.Errorf("the cloud was asked %d times, nodes %v; want the three as before", n, w.instance().Nodes)
	}
	w.put(stackSpec(stackOne))
	if nodes := w.instance().Nodes; !slices.Equal(nodes, []string{masterServer}) {
		t.Errorf("nodes %v, want those that the stack has", nodes)
	}
}

func TestFaultsOfWhatHeatSaysStandAtTheStack(t *testing.T) {
	w, c := inCloud(t)
	c.stacks[stackOne] = topologyOf(server(storageServer, "storage"), server(uuid(1, 2), "storage"))
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, stackSpec(stackOne))
	w.refused(err, api.ProblemInvalid, "/stackId: storage", "second storage server")
	c.stacks[stackOne] = full()
	w.put(stackSpec(stackOne))
	w.upload(script, "#!/bin/sh\n")
	c.stacks[stackOne] = topologyOf(server(storageServer, "storage"), server(uuid(1, 2), "storage"))
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd))
	w.refused(err, api.ProblemInvalid, "/stackId: storage")
}

func TestAnEndWaitsForHeatWithoutARecord(t *testing.T) {
	w, c := created(t)
	c.stacks[stackOne] = healed(uuid(1, 2))
	c.status(stackOne, "UPDATE_IN_PROGRESS", "Stack UPDATE started")
	w.post(heal(api.PhaseStart, nil, workerServer))
	changed, stop := w.Hub.Watch(notify.Instances)
	defer stop()
	c.status(stackOne, "UPDATE_IN_PROGRESS", "Stack UPDATE goes on")
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, scale(api.ScaleOut, api.PhaseEnd, nil))
	if !woken(changed) {
		t.Error("who watches the instances was not told of what Heat is at")
	}
	if w.writes(func() {
		_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, scale(api.ScaleOut, api.PhaseEnd, nil))
	}) {
		t.Error("the END that was refused was written")
	}
	w.refused(err, api.ProblemStackInProgress, "vnf-1 ("+stackOne+")", "UPDATE_IN_PROGRESS", "Stack UPDATE goes on")
	if i := w.instance(); i.Stack.Status != "UPDATE_IN_PROGRESS" || len(w.operations()) != 3 {
		t.Errorf("stack %+v, %d operations; want it seen in progress, and no operation for it", i.Stack, len(w.operations()))
	}
	c.status(stackOne, "UPDATE_COMPLETE", "")
	if op := w.post(heal(api.PhaseEnd, nil, workerServer)); op.State != api.Processing {
		t.Errorf("HEAL END is %+v", op)
	}
}

func TestWhoWaitsForHeatHasEverythingElseReady(t *testing.T) {
	w, c := inCloud(t)
	c.stacks[stackOne] = full()
	c.status(stackOne, "CREATE_IN_PROGRESS", "")
	w.put(stackSpec(stackOne))
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd))
	w.refused(err, api.ProblemFilesMissing, script)
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, nil))
	w.refused(err, api.ProblemConflict, "NOT_INSTANTIATED")
	w.upload(script, "#!/bin/sh\n")
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd))
	w.refused(err, api.ProblemStackInProgress, "stack "+stackOne+" is CREATE_IN_PROGRESS", "Heat gave no reason")
}

func TestAnEndOfAStackThatIsGone(t *testing.T) {
	w, c := created(t)
	for name, break_ := range map[string]func(){
		"no such stack": func() { delete(c.stacks, stackOne) },
		"deleted":       func() { c.stacks[stackOne] = full(); c.status(stackOne, "DELETE_COMPLETE", "") },
		"being deleted": func() { c.stacks[stackOne] = full(); c.status(stackOne, "DELETE_IN_PROGRESS", "") },
	} {
		break_()
		if w.writes(func() {
			_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, nil))
			w.refused(err, api.ProblemStackGone, stackOne)
		}) {
			t.Errorf("%s: the END was written", name)
		}
		if op := w.post(heal(api.PhaseStart, nil, workerServer)); op.State != api.Completed || !saysOne(op.Warnings, "/stackId", "the servers known before stay") {
			t.Errorf("%s: HEAL START is %+v, want COMPLETED with a warning", name, op)
		}
		if nodes := w.instance().Nodes; len(nodes) != 3 {
			t.Errorf("%s: nodes %v, want all as before", name, nodes)
		}
	}
	c.away = unreachable()
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, nil))
	w.refused(err, api.ProblemCloudError, "Heat does not answer")
}

func TestTerminateAsksNoCloud(t *testing.T) {
	w, c := created(t)
	delete(c.stacks, stackOne)
	c.away = unreachable()
	asked := c.asks(func() {
		w.post(request(api.Terminate, api.PhaseStart))
		if op := w.post(request(api.Terminate, api.PhaseEnd)); op.State != api.Completed || op.StackID != stackOne {
			t.Errorf("TERMINATE END is %+v", op)
		}
	})
	if i := w.instance(); asked != 0 || i.StackID != "" || i.Stack != nil || len(i.Nodes) != 0 {
		t.Errorf("the cloud was asked %d times, and the instance is %+v", asked, i)
	}
}

func TestARequestThatHeatDoesNotChangeDoesNotAskIt(t *testing.T) {
	w, c := created(t)
	grown := full()
	grown.Servers = append(grown.Servers, server(uuid(3, 2), "worker"))
	c.stacks[stackOne] = grown
	end := scale(api.ScaleOut, api.PhaseEnd, nil)
	end.IdempotencyKey = "occurrence-1"
	var op api.Operation
	if n := c.asks(func() { op = w.post(end) }); n != 1 || !slices.Equal(reconcile.TargetIDs(op.Targets), []string{uuid(3, 2)}) {
		t.Fatalf("asked %d times, operation %+v", n, op)
	}
	c.away = unreachable()
	asked := c.asks(func() {
		if again := w.post(end); again.ID != op.ID || again.State != api.Processing {
			t.Errorf("the key of the running operation gives %+v", again)
		}
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, nil))
		w.refused(err, api.ProblemOperationInProgress)
		w.converge(uuid(3, 2))
		if again := w.post(end); again.ID != op.ID || again.State != api.Completed {
			t.Errorf("the key of the completed operation gives %+v", again)
		}
	})
	if asked != 0 {
		t.Errorf("the cloud was asked %d times", asked)
	}
}

func TestAnEntireHealTakesTheNewStackFromHeat(t *testing.T) {
	w, c := created(t)
	ids := []string{uuid(1, 2), uuid(2, 2), uuid(3, 2)}
	w.post(heal(api.PhaseStart, nil))
	c.status(stackOne, "DELETE_COMPLETE", "")
	c.stacks[stackTwo] = topologyOf(server(ids[0], "storage"), server(ids[1], "master"), server(ids[2], "worker"))
	end := heal(api.PhaseEnd, nil)
	end.StackID = stackTwo
	op := w.post(end)
	if !slices.Equal(reconcile.TargetIDs(op.Targets), ids) || op.StackID != stackTwo {
		t.Errorf("HEAL END is %+v, want the three new servers of the second stack", op)
	}
	w.converge(ids...)
	if got := w.operation(op.ID); got.State != api.Completed || w.instance().StackID != stackTwo {
		t.Errorf("HEAL END is %+v of stack %s", got, w.instance().StackID)
	}
}

// What was asked for an older desired state does not come into force over a newer one.
func TestAnAnswerThatWasOvertakenIsAskedForAgain(t *testing.T) {
	w, c := created(t)
	c.stacks[stackTwo] = topologyOf(server(uuid(1, 2), "storage"), server(masterServer, "master"), server(workerServer, "worker"))
	c.meanwhile = func() { w.put(stackSpec(stackTwo)) }
	op := w.post(heal(api.PhaseEnd, nil, workerServer))
	if op.StackID != stackTwo || w.instance().StackID != stackTwo || !slices.Contains(w.instance().Nodes, uuid(1, 2)) {
		t.Errorf("HEAL END of %s, instance %+v; want both of the newer stack", op.StackID, w.instance())
	}
	w.converge(uuid(1, 2), workerServer)

	// An observation that saw less than a newer one, by which nothing changed.
	was := c.stacks[stackTwo]
	c.stacks[stackTwo] = topologyOf(was.Servers[1:]...)
	c.meanwhile = func() {
		c.stacks[stackTwo] = was
		w.put(stackSpec(stackTwo))
	}
	w.put(stackSpec(stackTwo))
	if nodes := w.instance().Nodes; !slices.Contains(nodes, uuid(1, 2)) {
		t.Errorf("nodes %v; an older observation took the storage server away", nodes)
	}

	c.meanwhile = w.busy(c, 100)
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, stackSpec(stackTwo))
	w.refused(err, api.ProblemUnavailable, "send the request again")
}

// busy changes the instance while the cloud is asked, so many times.
func (w *world) busy(c *cloud, times int) func() {
	return func() {
		other := spec(nil)
		other.AdditionalParams = parameters("10." + strings.Repeat("1", 1+times%2) + ".0.0/16")
		w.put(other)
		if times > 0 {
			c.meanwhile = w.busy(c, times-1)
		}
	}
}
