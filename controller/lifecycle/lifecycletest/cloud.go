package lifecycletest

import (
	"context"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The ids of stacks.
const (
	StackOne = "35dc4b0e-9e42-4d9f-a14d-c80f63540001"
	StackTwo = "35dc4b0e-9e42-4d9f-a14d-c80f63540002"
)

// Cloud is a Source with stacks that the test makes. It is asked as Heat is: what a request
// gives is completed, which here means only that the stack has to be there.
type Cloud struct {
	// Stacks has each stack by its id, Names the id of each by its name.
	Stacks map[string]*api.Topology
	Names  map[string]string
	// Left is what remains of servers and volumes. Until it is set, all servers are ACTIVE, and
	// the first that is asked for has the volumes.
	Left *stack.Remains
	// Away is why nothing is answered, nil if all is well.
	Away error
	// Meanwhile is done while it is asked, once.
	Meanwhile func()
	// asked is what was asked for, in order.
	asked []stack.Request
}

// Resolve has a cloud be a stack.Source.
func (c *Cloud) Resolve(ctx context.Context, r stack.Request) (*api.Topology, error) {
	if r.StackID == "" {
		return stack.Inline{}.Resolve(ctx, r)
	}
	c.asked = append(c.asked, r)
	id := r.StackID
	if named, ok := c.Names[id]; ok {
		id = named
	}
	found := topology.Normalize(c.Stacks[id])
	c.meanwhile()
	switch {
	case c.Away != nil:
		return nil, c.Away
	case found == nil:
		return nil, api.NewProblem(api.ProblemStackGone, "the cloud has no stack "+r.StackID)
	case r.Inline != nil:
		return stack.Inline{}.Resolve(ctx, r)
	}
	found.StackID = id
	return found, nil
}

func (c *Cloud) meanwhile() {
	if do := c.Meanwhile; do != nil {
		c.Meanwhile = nil
		do()
	}
}

// Remains is what Left says.
func (c *Cloud) Remains(_ context.Context, r stack.Request, serverIDs, volumeIDs []string) (stack.Remains, error) {
	c.asked = append(c.asked, r)
	if c.Away != nil {
		return stack.Remains{}, c.Away
	}
	c.meanwhile()
	if c.Left != nil {
		return *c.Left, nil
	}
	left := stack.Remains{Servers: map[string]string{}, Volumes: map[string][]string{}}
	for _, id := range serverIDs {
		left.Servers[id] = "ACTIVE"
	}
	for _, id := range volumeIDs {
		left.Volumes[id] = serverIDs[:1]
	}
	return left, nil
}

// Replaced has Nova have no storage server but this one, and Cinder show the volume on it.
func (c *Cloud) Replaced(by string) {
	c.Left = &stack.Remains{Servers: map[string]string{by: "ACTIVE"}, Volumes: map[string][]string{Volume: {by}}}
}

// Asks is how often the cloud is asked while fn runs.
func (c *Cloud) Asks(fn func()) int {
	before := len(c.asked)
	fn()
	return len(c.asked) - before
}

// Unreachable is what a source says of a cloud that does not answer.
func Unreachable() error { return api.NewProblem(api.ProblemCloudError, "Heat does not answer") }

// InCloud is a world whose controller has a cloud.
func InCloud(t T) (*World, *Cloud) {
	t.Helper()
	w := New(t)
	c := &Cloud{Stacks: map[string]*api.Topology{}, Names: map[string]string{}}
	w.Source = c
	w.Lifecycle.Instances.Observer.Source = c
	return w, c
}

// StackSpec is the parameters with the stack that they are for.
func StackSpec(stackID string) api.InstanceSpec {
	s := Spec(nil)
	s.StackID = stackID
	return s
}

// Created is an instance of the stack, all of whose servers are ready; not even its
// first request has a topology.
func Created(t T) (*World, *Cloud) {
	t.Helper()
	w, c := InCloud(t)
	w.Put(StackSpec("vnf-1"))
	w.Upload(ScriptFile, "#!/bin/sh\n")
	w.Post(Request(api.Instantiate, api.PhaseStart))
	c.Stacks[StackOne], c.Names["vnf-1"] = FullTopology(), StackOne
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	w.Converge(StorageServer, MasterServer, WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w, c
}

// SetStatus has the stack be in this state.
func (c *Cloud) SetStatus(id, status, reason string) {
	t := *c.Stacks[id]
	t.StackStatus, t.StackStatusReason = status, reason
	c.Stacks[id] = &t
}

// ThirdWorker is in the same nested stack as SecondWorker.
var ThirdWorker = UUID(3, 3)

// MemberStack is the id of that nested stack.
const MemberStack = "0c7e1a52-9e42-4d9f-a14d-c80f6354000a"

// MemberTopology is FullTopology with a group. One member of the group has two workers.
func MemberTopology() *api.Topology {
	s := FullTopology()
	for _, id := range []string{SecondWorker, ThirdWorker} {
		worker := Server(id, "worker")
		worker.VnfcInstanceID, worker.MemberStackID = "", MemberStack
		s.Servers = append(s.Servers, worker)
	}
	return s
}

// CreatedWithMembers is Created once its stack is MemberTopology, whose workers are ready.
func CreatedWithMembers(t T) (*World, *Cloud) {
	t.Helper()
	w, c := Created(t)
	c.Stacks[StackOne] = MemberTopology()
	op := w.Post(Scale(api.ScaleOut, api.PhaseEnd, nil))
	w.Converge(SecondWorker, ThirdWorker)
	if got := w.Operation(op.ID); got.State != api.Completed {
		w.Fatalf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
	return w, c
}
