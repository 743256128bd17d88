package lcm_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A WaitCondition in the stack waits for machines that converge while the stack is made.
func TestMachinesEnrollWhileTheirStackIsMade(t *testing.T) {
	w, c := inCloud(t)
	w.put(stackSpec("vnf-1"))
	w.upload(script, "#!/bin/sh\n")
	w.post(request(api.Instantiate, api.PhaseStart))
	w.refused(w.enroll(storageServer), api.ProblemServerNotExpected)

	c.stacks[stackOne], c.names["vnf-1"] = topologyOf(server(masterServer, "master")), stackOne
	c.status(stackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(shortestPause)
	w.must(w.enroll(masterServer))
	if i := w.instance(); i.StackID != stackOne || i.Stack.Name != "vnf-1" || !slices.Equal(i.Nodes, []string{masterServer}) {
		t.Fatalf("instance %+v, want the master and the stack's id", i)
	}
	c.stacks[stackOne] = full()
	c.status(stackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(shortestPause)
	asked := c.asks(func() {
		w.must(w.enroll(storageServer))
		w.must(w.enroll(workerServer)) // found by the observation for the storage server
	})
	if asked != 1 {
		t.Errorf("the cloud was asked %d times for two servers, want once", asked)
	}
	w.converge(storageServer, masterServer, workerServer)
	if n := w.node(storageServer); !n.Ready {
		t.Errorf("the storage server is %+v", n)
	}
	version := w.instance().DesiredVersion
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd))
	w.refused(err, api.ProblemStackInProgress)

	c.status(stackOne, "CREATE_COMPLETE", "")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	if op.State != api.Completed || len(op.Targets) != 3 {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED by the reports of its three targets", op)
	}
	if got := w.node(storageServer).Generation; got != 1 {
		t.Errorf("the storage server has generation %d after the END, want 1 (version %d)", got, version)
	}
}

func TestAServerThatCalledIsNewToTheEndThatFollows(t *testing.T) {
	w, c := created(t)
	second := uuid(3, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "worker"))
	c.stacks[stackOne] = grown
	c.status(stackOne, "UPDATE_IN_PROGRESS", "")
	w.must(w.enroll(second))
	c.status(stackOne, "UPDATE_COMPLETE", "")
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, nil))
	if op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), []string{second}) {
		t.Fatalf("SCALE_OUT END is %+v, want PROCESSING for the new worker", op)
	}
	w.converge(second)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
}

// What a stack may have that is not added to the topology when a server calls.
func TestWhoIsNotTakenFromTheStack(t *testing.T) {
	unlisted := uuid(5, 1)
	withVolume := func(s api.Server) api.Server {
		s.VolumeIds = []string{volume}
		return s
	}
	for name, c := range map[string]struct {
		server  api.Server
		prepare func(*world, *cloud)
		status  string
	}{
		"a server that the stack has not":          {server: api.Server{ID: uuid(5, 2), Name: "other"}},
		"a server without a role":                  {server: api.Server{ID: unlisted, Name: "other"}},
		"a second storage server":                  {server: server(unlisted, "storage")},
		"one that has the storage server's volume": {server: withVolume(server(unlisted, "worker"))},
		"one of another instance": {server: server(unlisted, "worker"), prepare: func(w *world, _ *cloud) {
			other := spec(topologyOf(server(unlisted, "worker")))
			_, _, err := w.LCM.Instances.PutInstance(w.ctx, uuid(8, 8), other)
			w.must(err)
		}},
		"one of a stack that is being deleted": {server: server(unlisted, "worker"), status: "DELETE_IN_PROGRESS"},
		"one of an instance that is being terminated": {server: server(unlisted, "worker"), prepare: func(w *world, _ *cloud) {
			w.post(request(api.Terminate, api.PhaseStart))
		}},
		"one of an instance that was terminated": {server: server(unlisted, "worker"), prepare: func(w *world, _ *cloud) {
			w.post(request(api.Terminate, api.PhaseEnd))
		}},
		"one that leaves": {server: server(unlisted, "worker"), prepare: func(w *world, c *cloud) {
			start := scale(api.ScaleIn, api.PhaseStart, nil)
			start.VnfcInstanceIds = []string{"vnfc-" + unlisted, unlisted}
			before, after := full(), full()
			before.StackID, after.StackID = stackOne, stackOne
			before.Servers = append(before.Servers, server(unlisted, "worker"))
			start.Topology = before
			w.post(start)
			w.put(spec(after))
		}},
		"one of an instance that is not confirmed": {server: server(unlisted, "worker"), prepare: func(w *world, _ *cloud) { w.restored() }},
		"one while the cloud is away":              {server: server(unlisted, "worker"), prepare: func(_ *world, c *cloud) { c.away = unreachable() }},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := created(t)
			grown := full()
			if c.server.Name != "other" || c.server.ID == unlisted {
				grown.Servers = append(grown.Servers, c.server)
			}
			cloud.stacks[stackOne] = grown
			if c.status == "" {
				c.status = "UPDATE_COMPLETE"
			}
			cloud.status(stackOne, c.status, "")
			if c.prepare != nil {
				c.prepare(w, cloud)
			}
			before := w.instance()
			if w.writes(func() { w.notLetIn(w.enroll(c.server.ID)) }) {
				t.Errorf("the instance was %+v and is %+v", before, w.instance())
			}
		})
	}
}

func (w *world) notLetIn(err error) {
	w.Helper()
	w.refused(err, api.ProblemServerNotExpected)
}

// A server that is refused keeps no other out.
func TestWhoMayIsTakenBesideWhoMayNot(t *testing.T) {
	w, c := created(t)
	replacement, second := uuid(1, 2), uuid(3, 2)
	before := w.instance().Topology
	grown := full()
	grown.Servers = append(grown.Servers, server(replacement, "storage"), server(second, "worker"))
	grown.Servers[2].Name = "by another name"
	grown.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.9"}}}
	c.stacks[stackOne] = grown
	w.notLetIn(w.enroll(replacement))
	w.must(w.enroll(second))
	want := *before
	want.Servers = append(slices.Clone(want.Servers), server(second, "worker"))
	want.ConnectionPoints = grown.ConnectionPoints
	if diff := cmp.Diff(&want, w.instance().Topology); diff != "" {
		t.Errorf("the topology in force (-want +got):\n%s", diff)
	}
	// The END knows that the old one is gone.
	c.stacks[stackOne] = topologyOf(grown.Servers[1], grown.Servers[2], grown.Servers[3], grown.Servers[4])
	op := w.post(heal(api.PhaseEnd, nil, storageServer))
	w.converge(reconcile.TargetIDs(op.Targets)...)
	if got := w.operation(op.ID); got.State != api.Completed || w.node(storageServer).State != api.NodeRevoked {
		t.Errorf("HEAL END is %+v", got)
	}
}

// Volumes are attached one after the other once the server runs; no server calls again
// when the second one is.
func TestAStorageServerThatCallsBeforeAllItsVolumesAreAttached(t *testing.T) {
	w, c := inCloud(t)
	two := stackSpec(stackOne)
	two.AdditionalParams = []byte(replaceOnce(string(two.AdditionalParams), `"mount_to": "/volume"}`, `"mount_to": "/volume"}, {"volume_resource_id": "second_volume", "mount_to": "/second"}`))
	top := topologyOf(server(storageServer, "storage"))
	top.Volumes = append(top.Volumes, api.TopologyVolume{ResourceID: "second_volume", ID: uuid(9, 2), SizeBytes: 1 << 30})
	c.stacks[stackOne] = topologyOf()
	w.put(two)
	w.upload(script, "#!/bin/sh\n")
	c.stacks[stackOne] = top
	c.status(stackOne, "CREATE_IN_PROGRESS", "")
	w.must(w.enroll(storageServer))
	if n := w.node(storageServer); len(n.Withheld) > 0 {
		t.Fatalf("withheld %+v, want the section with both volumes", n.Withheld)
	}
	c.stacks[stackOne].Servers[0].VolumeIds = []string{volume, uuid(9, 2)}
	c.status(stackOne, "CREATE_COMPLETE", "")
	end := request(api.Instantiate, api.PhaseEnd)
	end.Partial = true
	w.post(end)
	if n := w.node(storageServer); n.Generation != 1 || len(n.Withheld) > 0 {
		t.Errorf("node %+v, want the document that it had", n)
	}
}

// Its document would ask nothing of a storage server whose volume Heat has not made yet:
// it would be Ready, and tell Heat so.
func TestAStorageServerThatCallsBeforeItsVolumeIsMade(t *testing.T) {
	w, c := inCloud(t)
	w.put(stackSpec(stackOne))
	w.upload(script, "#!/bin/sh\n")
	early := topologyOf(server(masterServer, "master"), server(storageServer, "storage"))
	early.Volumes, early.Servers[1].VolumeIds = nil, nil
	c.stacks[stackOne] = early
	c.status(stackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(shortestPause)
	w.must(w.enroll(masterServer))
	w.notLetIn(w.enroll(storageServer))
	c.stacks[stackOne] = full()
	c.status(stackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(longestPause)
	w.must(w.enroll(storageServer))
	if n := w.node(storageServer); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

// What a node lacks may come with a server that calls.
func TestAVolumeThatComesWithWhoCalls(t *testing.T) {
	w, c := created(t)
	early := topologyOf(server(masterServer, "master"), server(storageServer, "storage"))
	early.StackID, early.Volumes, early.Servers[1].VolumeIds = stackOne, nil, nil
	w.put(spec(early))
	grown := full()
	grown.Servers = append(grown.Servers, server(uuid(3, 2), "worker"))
	c.stacks[stackOne] = grown
	w.must(w.enroll(uuid(3, 2)))
	if n := w.node(storageServer); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

func TestObservationsAreFew(t *testing.T) {
	w, c := created(t)
	unlisted := uuid(5, 1)
	calls := func(d time.Duration) (asked int) {
		for end := w.Clock.Now().Add(d); w.Clock.Now().Before(end); {
			w.Clock.Advance(time.Second)
			asked += c.asks(func() { w.refused(w.LCM.Discovery.Discover(w.ctx, instanceID, unlisted), api.ProblemNotFound) })
		}
		return asked
	}
	c.stacks[stackOne].Servers = append(c.stacks[stackOne].Servers, api.Server{ID: unlisted, Name: "no role"})
	if n := calls(9 * time.Second); n != 1 {
		t.Errorf("%d observations in 9 seconds, want 1", n)
	}
	if n := calls(time.Hour); n < 14 || n > 17 {
		t.Errorf("%d observations in an hour that found nothing, want them to be 5 minutes apart in the end", n)
	}
	w.put(spec(nil))
	if n := calls(9 * time.Second); n != 1 {
		t.Errorf("%d observations in the 9 seconds after a PUT, want 1", n)
	}
	// A server that is found resets the pause as well.
	calls(10 * time.Minute)
	w.Clock.Advance(longestPause)
	grown := full()
	grown.Servers = append(grown.Servers, server(uuid(3, 2), "worker"), api.Server{ID: unlisted, Name: "no role"})
	c.stacks[stackOne] = grown
	if n := c.asks(func() { w.must(w.enroll(uuid(3, 2))) }); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if n := calls(11 * time.Second); n != 1 {
		t.Errorf("%d observations in the 11 seconds after one that found a server, want 1", n)
	}
}

func TestServersThatCallTogetherShareOneObservation(t *testing.T) {
	w, c := created(t)
	grown := full()
	for i := range 20 {
		grown.Servers = append(grown.Servers, server(uuid(3, 2+i), "worker"))
	}
	c.stacks[stackOne] = grown
	arrived := make(chan struct{})
	var others sync.WaitGroup
	c.meanwhile = func() {
		for i := range 19 {
			others.Go(func() {
				arrived <- struct{}{}
				if err := w.LCM.Discovery.Discover(w.ctx, instanceID, uuid(3, 3+i)); err != nil {
					t.Errorf("server %d: %v", i, err)
				}
			})
			<-arrived
		}
	}
	if n := c.asks(func() { w.must(w.LCM.Discovery.Discover(w.ctx, instanceID, uuid(3, 2))) }); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
	others.Wait()
	if n := len(w.instance().Nodes); n != 23 {
		t.Errorf("%d nodes, want 23", n)
	}
}

// An operation that comes during the observation for a server is about another stack.
func TestAnObservationThatAnOperationOvertookIsMadeAgain(t *testing.T) {
	w, c := created(t)
	second := uuid(3, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "worker"))
	c.stacks[stackOne] = grown
	c.meanwhile = func() { // the worker is gone before the observation is used
		c.stacks[stackOne] = full()
		w.post(heal(api.PhaseEnd, nil, workerServer))
	}
	w.notLetIn(w.enroll(second))
	if nodes := w.instance().Nodes; len(nodes) != 3 {
		t.Errorf("nodes %v; one was added that a newer observation has not seen", nodes)
	}
	if n := c.asks(func() { w.notLetIn(w.enroll(second)) }); n != 1 {
		t.Errorf("asked %d times after the operation, want once", n)
	}
}

func replaceOnce(text, old, new string) string {
	before, after, found := strings.Cut(text, old)
	if !found {
		panic("the text has no " + old)
	}
	return before + new + after
}

// The END puts another volume in the place of one, because it knows which is which.
func TestAVolumeThatIsAnotherOneNow(t *testing.T) {
	w, c := created(t)
	lone := topologyOf(server(masterServer, "master"))
	lone.StackID = stackOne
	w.put(spec(lone))
	before := w.instance().Topology
	replacement, other := server(uuid(1, 2), "storage"), uuid(9, 2)
	replacement.VolumeIds = []string{other}
	grown := topologyOf(server(masterServer, "master"), replacement)
	grown.Volumes[0].ID = other
	c.stacks[stackOne] = grown
	w.notLetIn(w.enroll(replacement.ID))
	if diff := cmp.Diff(before, w.instance().Topology); diff != "" {
		t.Errorf("the topology in force (-before +after):\n%s", diff)
	}
}

// A connection point of the stack stays what it was until an operation changes it.
func TestAConnectionPointThatIsAnotherOneNow(t *testing.T) {
	w, c := created(t)
	before := full()
	before.StackID = stackOne
	before.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.9"}}}
	w.put(spec(before))
	grown := full()
	grown.Servers = append(grown.Servers, server(uuid(3, 2), "worker"))
	grown.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.10"}}}
	c.stacks[stackOne] = grown
	w.must(w.enroll(uuid(3, 2)))
	if diff := cmp.Diff(before.ConnectionPoints, w.instance().Topology.ConnectionPoints); diff != "" {
		t.Errorf("connection points (-before +after):\n%s", diff)
	}
}
