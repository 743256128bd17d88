package discovery_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A WaitCondition in the stack waits for machines that converge while the stack is made.
func TestMachinesEnrollWhileTheirStackIsMade(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	w.Put(lifecycletest.StackSpec("vnf-1"))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(w.Enroll(lifecycletest.StorageServer), api.ProblemServerNotExpected)

	c.Stacks[lifecycletest.StackOne], c.Names["vnf-1"] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master")), lifecycletest.StackOne
	c.SetStatus(lifecycletest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lifecycletest.ShortestPause)
	w.Must(w.Enroll(lifecycletest.MasterServer))
	if i := w.Instance(); i.StackID != lifecycletest.StackOne || i.Stack.Name != "vnf-1" || !slices.Equal(i.Nodes, []string{lifecycletest.MasterServer}) {
		t.Fatalf("instance %+v, want the master and the stack's id", i)
	}
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	c.SetStatus(lifecycletest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lifecycletest.ShortestPause)
	asked := c.Asks(func() {
		w.Must(w.Enroll(lifecycletest.StorageServer))
		w.Must(w.Enroll(lifecycletest.WorkerServer)) // found by the observation for the storage server
	})
	if asked != 1 {
		t.Errorf("the cloud was asked %d times for two servers, want once", asked)
	}
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	if n := w.Node(lifecycletest.StorageServer); !n.Ready {
		t.Errorf("the storage server is %+v", n)
	}
	version := w.Instance().DesiredVersion
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemStackInProgress)

	c.SetStatus(lifecycletest.StackOne, "CREATE_COMPLETE", "")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	if op.State != api.Completed || len(op.Targets) != 3 {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED by the reports of its three targets", op)
	}
	if got := w.Node(lifecycletest.StorageServer).Generation; got != 1 {
		t.Errorf("the storage server has generation %d after the END, want 1 (version %d)", got, version)
	}
}

func TestAServerThatCalledIsNewToTheEndThatFollows(t *testing.T) {
	w, c := lifecycletest.Created(t)
	second := lifecycletest.UUID(3, 2)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "worker"))
	c.Stacks[lifecycletest.StackOne] = grown
	c.SetStatus(lifecycletest.StackOne, "UPDATE_IN_PROGRESS", "")
	w.Must(w.Enroll(second))
	c.SetStatus(lifecycletest.StackOne, "UPDATE_COMPLETE", "")
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	if op.State != api.Processing || !slices.Equal(completion.TargetIDs(op.Targets), []string{second}) {
		t.Fatalf("SCALE_OUT END is %+v, want PROCESSING for the new worker", op)
	}
	w.Converge(second)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
}

// What a stack may have that is not added to the topology when a server calls.
func TestWhoIsNotTakenFromTheStack(t *testing.T) {
	unlisted := lifecycletest.UUID(5, 1)
	withVolume := func(s api.Server) api.Server {
		s.VolumeIds = []string{lifecycletest.Volume}
		return s
	}
	for name, c := range map[string]struct {
		server  api.Server
		prepare func(*lifecycletest.World, *lifecycletest.Cloud)
		status  string
	}{
		"a server that the stack has not":          {server: api.Server{ID: lifecycletest.UUID(5, 2), Name: "other"}},
		"a server without a role":                  {server: api.Server{ID: unlisted, Name: "other"}},
		"a second storage server":                  {server: lifecycletest.Server(unlisted, "storage")},
		"one that has the storage server's volume": {server: withVolume(lifecycletest.Server(unlisted, "worker"))},
		"one of another instance": {server: lifecycletest.Server(unlisted, "worker"), prepare: func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			other := lifecycletest.Spec(lifecycletest.TopologyOf(lifecycletest.Server(unlisted, "worker")))
			_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.UUID(8, 8), other)
			w.Must(err)
		}},
		"one of a stack that is being deleted": {server: lifecycletest.Server(unlisted, "worker"), status: "DELETE_IN_PROGRESS"},
		"one of an instance that is being terminated": {server: lifecycletest.Server(unlisted, "worker"), prepare: func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
		}},
		"one of an instance that was terminated": {server: lifecycletest.Server(unlisted, "worker"), prepare: func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
		}},
		"one that leaves": {server: lifecycletest.Server(unlisted, "worker"), prepare: func(w *lifecycletest.World, c *lifecycletest.Cloud) {
			start := lifecycletest.Scale(api.ScaleIn, api.PhaseStart, nil)
			start.VnfcInstanceIds = []string{"vnfc-" + unlisted, unlisted}
			before, after := lifecycletest.FullTopology(), lifecycletest.FullTopology()
			before.StackID, after.StackID = lifecycletest.StackOne, lifecycletest.StackOne
			before.Servers = append(before.Servers, lifecycletest.Server(unlisted, "worker"))
			start.Topology = before
			w.Post(start)
			w.Put(lifecycletest.Spec(after))
		}},
		"one of an instance that is not confirmed": {server: lifecycletest.Server(unlisted, "worker"), prepare: func(w *lifecycletest.World, _ *lifecycletest.Cloud) { w.Restore() }},
		"one while the cloud is away":              {server: lifecycletest.Server(unlisted, "worker"), prepare: func(_ *lifecycletest.World, c *lifecycletest.Cloud) { c.Away = lifecycletest.Unreachable() }},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Created(t)
			grown := lifecycletest.FullTopology()
			if c.server.Name != "other" || c.server.ID == unlisted {
				grown.Servers = append(grown.Servers, c.server)
			}
			cloud.Stacks[lifecycletest.StackOne] = grown
			if c.status == "" {
				c.status = "UPDATE_COMPLETE"
			}
			cloud.SetStatus(lifecycletest.StackOne, c.status, "")
			if c.prepare != nil {
				c.prepare(w, cloud)
			}
			before := w.Instance()
			if w.Writes(func() { w.WantRefused(w.Enroll(c.server.ID), api.ProblemServerNotExpected) }) {
				t.Errorf("the instance was %+v and is %+v", before, w.Instance())
			}
		})
	}
}

// A server that is refused keeps no other out.
func TestWhoMayIsTakenBesideWhoMayNot(t *testing.T) {
	w, c := lifecycletest.Created(t)
	replacement, second := lifecycletest.UUID(1, 2), lifecycletest.UUID(3, 2)
	before := w.Instance().Topology
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(replacement, "storage"), lifecycletest.Server(second, "worker"))
	grown.Servers[2].Name = "by another name"
	grown.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.9"}}}
	c.Stacks[lifecycletest.StackOne] = grown
	w.WantRefused(w.Enroll(replacement), api.ProblemServerNotExpected)
	w.Must(w.Enroll(second))
	want := *before
	want.Servers = append(slices.Clone(want.Servers), lifecycletest.Server(second, "worker"))
	want.ConnectionPoints = grown.ConnectionPoints
	if diff := cmp.Diff(&want, w.Instance().Topology); diff != "" {
		t.Errorf("the topology in force (-want +got):\n%s", diff)
	}
	// The END knows that the old one is gone.
	c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(grown.Servers[1], grown.Servers[2], grown.Servers[3], grown.Servers[4])
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.StorageServer))
	w.Converge(completion.TargetIDs(op.Targets)...)
	if got := w.Operation(op.ID); got.State != api.Completed || w.Node(lifecycletest.StorageServer).State != api.NodeRevoked {
		t.Errorf("HEAL END is %+v", got)
	}
}

// Volumes are attached one after the other once the server runs; no server calls again
// when the second one is.
func TestAStorageServerThatCallsBeforeAllItsVolumesAreAttached(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	two := lifecycletest.StackSpec(lifecycletest.StackOne)
	two.AdditionalParams = []byte(replaceOnce(string(two.AdditionalParams), `"mount_to": "/volume"}`, `"mount_to": "/volume"}, {"volume_resource_id": "second_volume", "mount_to": "/second"}`))
	top := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"))
	top.Volumes = append(top.Volumes, api.TopologyVolume{ResourceID: "second_volume", ID: lifecycletest.UUID(9, 2), SizeBytes: 1 << 30})
	c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf()
	w.Put(two)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	c.Stacks[lifecycletest.StackOne] = top
	c.SetStatus(lifecycletest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Must(w.Enroll(lifecycletest.StorageServer))
	if n := w.Node(lifecycletest.StorageServer); len(n.Withheld) > 0 {
		t.Fatalf("withheld %+v, want the section with both volumes", n.Withheld)
	}
	c.Stacks[lifecycletest.StackOne].Servers[0].VolumeIds = []string{lifecycletest.Volume, lifecycletest.UUID(9, 2)}
	c.SetStatus(lifecycletest.StackOne, "CREATE_COMPLETE", "")
	end := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	end.Partial = true
	w.Post(end)
	if n := w.Node(lifecycletest.StorageServer); n.Generation != 1 || len(n.Withheld) > 0 {
		t.Errorf("node %+v, want the document that it had", n)
	}
}

// Its document would ask nothing of a storage server whose volume Heat has not made yet:
// it would be Ready, and tell Heat so.
func TestAStorageServerThatCallsBeforeItsVolumeIsMade(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	early := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.StorageServer, "storage"))
	early.Volumes, early.Servers[1].VolumeIds = nil, nil
	c.Stacks[lifecycletest.StackOne] = early
	c.SetStatus(lifecycletest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lifecycletest.ShortestPause)
	w.Must(w.Enroll(lifecycletest.MasterServer))
	w.WantRefused(w.Enroll(lifecycletest.StorageServer), api.ProblemServerNotExpected)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	c.SetStatus(lifecycletest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lifecycletest.LongestPause)
	w.Must(w.Enroll(lifecycletest.StorageServer))
	if n := w.Node(lifecycletest.StorageServer); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

// What a node lacks may come with a server that calls.
func TestAVolumeThatComesWithWhoCalls(t *testing.T) {
	w, c := lifecycletest.Created(t)
	early := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.Server(lifecycletest.StorageServer, "storage"))
	early.StackID, early.Volumes, early.Servers[1].VolumeIds = lifecycletest.StackOne, nil, nil
	w.Put(lifecycletest.Spec(early))
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	c.Stacks[lifecycletest.StackOne] = grown
	w.Must(w.Enroll(lifecycletest.UUID(3, 2)))
	if n := w.Node(lifecycletest.StorageServer); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

func TestObservationsAreFew(t *testing.T) {
	w, c := lifecycletest.Created(t)
	unlisted := lifecycletest.UUID(5, 1)
	calls := func(d time.Duration) (asked int) {
		for end := w.Clock.Now().Add(d); w.Clock.Now().Before(end); {
			w.Clock.Advance(time.Second)
			asked += c.Asks(func() {
				w.WantRefused(w.Lifecycle.Discovery.Discover(w.Ctx, lifecycletest.InstanceID, unlisted), api.ProblemNotFound)
			})
		}
		return asked
	}
	c.Stacks[lifecycletest.StackOne].Servers = append(c.Stacks[lifecycletest.StackOne].Servers, api.Server{ID: unlisted, Name: "no role"})
	if n := calls(9 * time.Second); n != 1 {
		t.Errorf("%d observations in 9 seconds, want 1", n)
	}
	if n := calls(time.Hour); n < 14 || n > 17 {
		t.Errorf("%d observations in an hour that found nothing, want them to be 5 minutes apart in the end", n)
	}
	w.Put(lifecycletest.Spec(nil))
	if n := calls(9 * time.Second); n != 1 {
		t.Errorf("%d observations in the 9 seconds after a PUT, want 1", n)
	}
	// A server that is found resets the pause as well.
	calls(10 * time.Minute)
	w.Clock.Advance(lifecycletest.LongestPause)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"), api.Server{ID: unlisted, Name: "no role"})
	c.Stacks[lifecycletest.StackOne] = grown
	if n := c.Asks(func() { w.Must(w.Enroll(lifecycletest.UUID(3, 2))) }); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if n := calls(11 * time.Second); n != 1 {
		t.Errorf("%d observations in the 11 seconds after one that found a server, want 1", n)
	}
}

func TestServersThatCallTogetherShareOneObservation(t *testing.T) {
	w, c := lifecycletest.Created(t)
	grown := lifecycletest.FullTopology()
	for i := range 20 {
		grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2+i), "worker"))
	}
	c.Stacks[lifecycletest.StackOne] = grown
	arrived := make(chan struct{})
	var others sync.WaitGroup
	c.Meanwhile = func() {
		for i := range 19 {
			others.Go(func() {
				arrived <- struct{}{}
				if err := w.Lifecycle.Discovery.Discover(w.Ctx, lifecycletest.InstanceID, lifecycletest.UUID(3, 3+i)); err != nil {
					t.Errorf("server %d: %v", i, err)
				}
			})
			<-arrived
		}
	}
	if n := c.Asks(func() {
		w.Must(w.Lifecycle.Discovery.Discover(w.Ctx, lifecycletest.InstanceID, lifecycletest.UUID(3, 2)))
	}); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
	others.Wait()
	if n := len(w.Instance().Nodes); n != 23 {
		t.Errorf("%d nodes, want 23", n)
	}
}

// An operation that comes during the observation for a server is about another stack.
func TestAnObservationThatAnOperationOvertookIsMadeAgain(t *testing.T) {
	w, c := lifecycletest.Created(t)
	second := lifecycletest.UUID(3, 2)
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "worker"))
	c.Stacks[lifecycletest.StackOne] = grown
	c.Meanwhile = func() { // the worker is gone before the observation is used
		c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
		w.Post(lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.WorkerServer))
	}
	w.WantRefused(w.Enroll(second), api.ProblemServerNotExpected)
	if nodes := w.Instance().Nodes; len(nodes) != 3 {
		t.Errorf("nodes %v; one was added that a newer observation has not seen", nodes)
	}
	if n := c.Asks(func() { w.WantRefused(w.Enroll(second), api.ProblemServerNotExpected) }); n != 1 {
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
	w, c := lifecycletest.Created(t)
	lone := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"))
	lone.StackID = lifecycletest.StackOne
	w.Put(lifecycletest.Spec(lone))
	before := w.Instance().Topology
	replacement, other := lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), lifecycletest.UUID(9, 2)
	replacement.VolumeIds = []string{other}
	grown := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"), replacement)
	grown.Volumes[0].ID = other
	c.Stacks[lifecycletest.StackOne] = grown
	w.WantRefused(w.Enroll(replacement.ID), api.ProblemServerNotExpected)
	if diff := cmp.Diff(before, w.Instance().Topology); diff != "" {
		t.Errorf("the topology in force (-before +after):\n%s", diff)
	}
}

// A connection point of the stack stays what it was until an operation changes it.
func TestAConnectionPointThatIsAnotherOneNow(t *testing.T) {
	w, c := lifecycletest.Created(t)
	before := lifecycletest.FullTopology()
	before.StackID = lifecycletest.StackOne
	before.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.9"}}}
	w.Put(lifecycletest.Spec(before))
	grown := lifecycletest.FullTopology()
	grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	grown.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.10"}}}
	c.Stacks[lifecycletest.StackOne] = grown
	w.Must(w.Enroll(lifecycletest.UUID(3, 2)))
	if diff := cmp.Diff(before.ConnectionPoints, w.Instance().Topology.ConnectionPoints); diff != "" {
		t.Errorf("connection points (-before +after):\n%s", diff)
	}
}
