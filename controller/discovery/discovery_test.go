package discovery_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A WaitCondition in the stack waits for machines that converge while the stack is made.
func TestMachinesEnrollWhileTheirStackIsMade(t *testing.T) {
	w, c := lcmtest.InCloud(t)
	w.Put(lcmtest.StackSpec("vnf-1"))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(w.Enroll(lcmtest.StorageServer), api.ProblemServerNotExpected)

	c.Stacks[lcmtest.StackOne], c.Names["vnf-1"] = lcmtest.TopologyOf(lcmtest.Server(lcmtest.MasterServer, "master")), lcmtest.StackOne
	c.SetStatus(lcmtest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lcmtest.ShortestPause)
	w.Must(w.Enroll(lcmtest.MasterServer))
	if i := w.Instance(); i.StackID != lcmtest.StackOne || i.Stack.Name != "vnf-1" || !slices.Equal(i.Nodes, []string{lcmtest.MasterServer}) {
		t.Fatalf("instance %+v, want the master and the stack's id", i)
	}
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	c.SetStatus(lcmtest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lcmtest.ShortestPause)
	asked := c.Asks(func() {
		w.Must(w.Enroll(lcmtest.StorageServer))
		w.Must(w.Enroll(lcmtest.WorkerServer)) // found by the observation for the storage server
	})
	if asked != 1 {
		t.Errorf("the cloud was asked %d times for two servers, want once", asked)
	}
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	if n := w.Node(lcmtest.StorageServer); !n.Ready {
		t.Errorf("the storage server is %+v", n)
	}
	version := w.Instance().DesiredVersion
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.WantRefused(err, api.ProblemStackInProgress)

	c.SetStatus(lcmtest.StackOne, "CREATE_COMPLETE", "")
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	if op.State != api.Completed || len(op.Targets) != 3 {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED by the reports of its three targets", op)
	}
	if got := w.Node(lcmtest.StorageServer).Generation; got != 1 {
		t.Errorf("the storage server has generation %d after the END, want 1 (version %d)", got, version)
	}
}

func TestAServerThatCalledIsNewToTheEndThatFollows(t *testing.T) {
	w, c := lcmtest.Created(t)
	second := lcmtest.UUID(3, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "worker"))
	c.Stacks[lcmtest.StackOne] = grown
	c.SetStatus(lcmtest.StackOne, "UPDATE_IN_PROGRESS", "")
	w.Must(w.Enroll(second))
	c.SetStatus(lcmtest.StackOne, "UPDATE_COMPLETE", "")
	op := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	if op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), []string{second}) {
		t.Fatalf("SCALE_OUT END is %+v, want PROCESSING for the new worker", op)
	}
	w.Converge(second)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
}

// What a stack may have that is not added to the topology when a server calls.
func TestWhoIsNotTakenFromTheStack(t *testing.T) {
	unlisted := lcmtest.UUID(5, 1)
	withVolume := func(s api.Server) api.Server {
		s.VolumeIds = []string{lcmtest.Volume}
		return s
	}
	for name, c := range map[string]struct {
		server  api.Server
		prepare func(*lcmtest.World, *lcmtest.Cloud)
		status  string
	}{
		"a server that the stack has not":          {server: api.Server{ID: lcmtest.UUID(5, 2), Name: "other"}},
		"a server without a role":                  {server: api.Server{ID: unlisted, Name: "other"}},
		"a second storage server":                  {server: lcmtest.Server(unlisted, "storage")},
		"one that has the storage server's volume": {server: withVolume(lcmtest.Server(unlisted, "worker"))},
		"one of another instance": {server: lcmtest.Server(unlisted, "worker"), prepare: func(w *lcmtest.World, _ *lcmtest.Cloud) {
			other := lcmtest.Spec(lcmtest.TopologyOf(lcmtest.Server(unlisted, "worker")))
			_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.UUID(8, 8), other)
			w.Must(err)
		}},
		"one of a stack that is being deleted": {server: lcmtest.Server(unlisted, "worker"), status: "DELETE_IN_PROGRESS"},
		"one of an instance that is being terminated": {server: lcmtest.Server(unlisted, "worker"), prepare: func(w *lcmtest.World, _ *lcmtest.Cloud) {
			w.Post(lcmtest.Request(api.Terminate, api.PhaseStart))
		}},
		"one of an instance that was terminated": {server: lcmtest.Server(unlisted, "worker"), prepare: func(w *lcmtest.World, _ *lcmtest.Cloud) {
			w.Post(lcmtest.Request(api.Terminate, api.PhaseEnd))
		}},
		"one that leaves": {server: lcmtest.Server(unlisted, "worker"), prepare: func(w *lcmtest.World, c *lcmtest.Cloud) {
			start := lcmtest.Scale(api.ScaleIn, api.PhaseStart, nil)
			start.VnfcInstanceIds = []string{"vnfc-" + unlisted, unlisted}
			before, after := lcmtest.FullTopology(), lcmtest.FullTopology()
			before.StackID, after.StackID = lcmtest.StackOne, lcmtest.StackOne
			before.Servers = append(before.Servers, lcmtest.Server(unlisted, "worker"))
			start.Topology = before
			w.Post(start)
			w.Put(lcmtest.Spec(after))
		}},
		"one of an instance that is not confirmed": {server: lcmtest.Server(unlisted, "worker"), prepare: func(w *lcmtest.World, _ *lcmtest.Cloud) { w.Restore() }},
		"one while the cloud is away":              {server: lcmtest.Server(unlisted, "worker"), prepare: func(_ *lcmtest.World, c *lcmtest.Cloud) { c.Away = lcmtest.Unreachable() }},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lcmtest.Created(t)
			grown := lcmtest.FullTopology()
			if c.server.Name != "other" || c.server.ID == unlisted {
				grown.Servers = append(grown.Servers, c.server)
			}
			cloud.Stacks[lcmtest.StackOne] = grown
			if c.status == "" {
				c.status = "UPDATE_COMPLETE"
			}
			cloud.SetStatus(lcmtest.StackOne, c.status, "")
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
	w, c := lcmtest.Created(t)
	replacement, second := lcmtest.UUID(1, 2), lcmtest.UUID(3, 2)
	before := w.Instance().Topology
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(replacement, "storage"), lcmtest.Server(second, "worker"))
	grown.Servers[2].Name = "by another name"
	grown.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.9"}}}
	c.Stacks[lcmtest.StackOne] = grown
	w.WantRefused(w.Enroll(replacement), api.ProblemServerNotExpected)
	w.Must(w.Enroll(second))
	want := *before
	want.Servers = append(slices.Clone(want.Servers), lcmtest.Server(second, "worker"))
	want.ConnectionPoints = grown.ConnectionPoints
	if diff := cmp.Diff(&want, w.Instance().Topology); diff != "" {
		t.Errorf("the topology in force (-want +got):\n%s", diff)
	}
	// The END knows that the old one is gone.
	c.Stacks[lcmtest.StackOne] = lcmtest.TopologyOf(grown.Servers[1], grown.Servers[2], grown.Servers[3], grown.Servers[4])
	op := w.Post(lcmtest.Heal(api.PhaseEnd, nil, lcmtest.StorageServer))
	w.Converge(reconcile.TargetIDs(op.Targets)...)
	if got := w.Operation(op.ID); got.State != api.Completed || w.Node(lcmtest.StorageServer).State != api.NodeRevoked {
		t.Errorf("HEAL END is %+v", got)
	}
}

// Volumes are attached one after the other once the server runs; no server calls again
// when the second one is.
func TestAStorageServerThatCallsBeforeAllItsVolumesAreAttached(t *testing.T) {
	w, c := lcmtest.InCloud(t)
	two := lcmtest.StackSpec(lcmtest.StackOne)
	two.AdditionalParams = []byte(replaceOnce(string(two.AdditionalParams), `"mount_to": "/volume"}`, `"mount_to": "/volume"}, {"volume_resource_id": "second_volume", "mount_to": "/second"}`))
	top := lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"))
	top.Volumes = append(top.Volumes, api.TopologyVolume{ResourceID: "second_volume", ID: lcmtest.UUID(9, 2), SizeBytes: 1 << 30})
	c.Stacks[lcmtest.StackOne] = lcmtest.TopologyOf()
	w.Put(two)
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	c.Stacks[lcmtest.StackOne] = top
	c.SetStatus(lcmtest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Must(w.Enroll(lcmtest.StorageServer))
	if n := w.Node(lcmtest.StorageServer); len(n.Withheld) > 0 {
		t.Fatalf("withheld %+v, want the section with both volumes", n.Withheld)
	}
	c.Stacks[lcmtest.StackOne].Servers[0].VolumeIds = []string{lcmtest.Volume, lcmtest.UUID(9, 2)}
	c.SetStatus(lcmtest.StackOne, "CREATE_COMPLETE", "")
	end := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	end.Partial = true
	w.Post(end)
	if n := w.Node(lcmtest.StorageServer); n.Generation != 1 || len(n.Withheld) > 0 {
		t.Errorf("node %+v, want the document that it had", n)
	}
}

// Its document would ask nothing of a storage server whose volume Heat has not made yet:
// it would be Ready, and tell Heat so.
func TestAStorageServerThatCallsBeforeItsVolumeIsMade(t *testing.T) {
	w, c := lcmtest.InCloud(t)
	w.Put(lcmtest.StackSpec(lcmtest.StackOne))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	early := lcmtest.TopologyOf(lcmtest.Server(lcmtest.MasterServer, "master"), lcmtest.Server(lcmtest.StorageServer, "storage"))
	early.Volumes, early.Servers[1].VolumeIds = nil, nil
	c.Stacks[lcmtest.StackOne] = early
	c.SetStatus(lcmtest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lcmtest.ShortestPause)
	w.Must(w.Enroll(lcmtest.MasterServer))
	w.WantRefused(w.Enroll(lcmtest.StorageServer), api.ProblemServerNotExpected)
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	c.SetStatus(lcmtest.StackOne, "CREATE_IN_PROGRESS", "")
	w.Clock.Advance(lcmtest.LongestPause)
	w.Must(w.Enroll(lcmtest.StorageServer))
	if n := w.Node(lcmtest.StorageServer); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

// What a node lacks may come with a server that calls.
func TestAVolumeThatComesWithWhoCalls(t *testing.T) {
	w, c := lcmtest.Created(t)
	early := lcmtest.TopologyOf(lcmtest.Server(lcmtest.MasterServer, "master"), lcmtest.Server(lcmtest.StorageServer, "storage"))
	early.StackID, early.Volumes, early.Servers[1].VolumeIds = lcmtest.StackOne, nil, nil
	w.Put(lcmtest.Spec(early))
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
	c.Stacks[lcmtest.StackOne] = grown
	w.Must(w.Enroll(lcmtest.UUID(3, 2)))
	if n := w.Node(lcmtest.StorageServer); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

func TestObservationsAreFew(t *testing.T) {
	w, c := lcmtest.Created(t)
	unlisted := lcmtest.UUID(5, 1)
	calls := func(d time.Duration) (asked int) {
		for end := w.Clock.Now().Add(d); w.Clock.Now().Before(end); {
			w.Clock.Advance(time.Second)
			asked += c.Asks(func() {
				w.WantRefused(w.LCM.Discovery.Discover(w.Ctx, lcmtest.InstanceID, unlisted), api.ProblemNotFound)
			})
		}
		return asked
	}
	c.Stacks[lcmtest.StackOne].Servers = append(c.Stacks[lcmtest.StackOne].Servers, api.Server{ID: unlisted, Name: "no role"})
	if n := calls(9 * time.Second); n != 1 {
		t.Errorf("%d observations in 9 seconds, want 1", n)
	}
	if n := calls(time.Hour); n < 14 || n > 17 {
		t.Errorf("%d observations in an hour that found nothing, want them to be 5 minutes apart in the end", n)
	}
	w.Put(lcmtest.Spec(nil))
	if n := calls(9 * time.Second); n != 1 {
		t.Errorf("%d observations in the 9 seconds after a PUT, want 1", n)
	}
	// A server that is found resets the pause as well.
	calls(10 * time.Minute)
	w.Clock.Advance(lcmtest.LongestPause)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(lcmtest.UUID(3, 2), "worker"), api.Server{ID: unlisted, Name: "no role"})
	c.Stacks[lcmtest.StackOne] = grown
	if n := c.Asks(func() { w.Must(w.Enroll(lcmtest.UUID(3, 2))) }); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if n := calls(11 * time.Second); n != 1 {
		t.Errorf("%d observations in the 11 seconds after one that found a server, want 1", n)
	}
}

func TestServersThatCallTogetherShareOneObservation(t *testing.T) {
	w, c := lcmtest.Created(t)
	grown := lcmtest.FullTopology()
	for i := range 20 {
		grown.Servers = append(grown.Servers, lcmtest.Server(lcmtest.UUID(3, 2+i), "worker"))
	}
	c.Stacks[lcmtest.StackOne] = grown
	arrived := make(chan struct{})
	var others sync.WaitGroup
	c.Meanwhile = func() {
		for i := range 19 {
			others.Go(func() {
				arrived <- struct{}{}
				if err := w.LCM.Discovery.Discover(w.Ctx, lcmtest.InstanceID, lcmtest.UUID(3, 3+i)); err != nil {
					t.Errorf("server %d: %v", i, err)
				}
			})
			<-arrived
		}
	}
	if n := c.Asks(func() { w.Must(w.LCM.Discovery.Discover(w.Ctx, lcmtest.InstanceID, lcmtest.UUID(3, 2))) }); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
	others.Wait()
	if n := len(w.Instance().Nodes); n != 23 {
		t.Errorf("%d nodes, want 23", n)
	}
}

// An operation that comes during the observation for a server is about another stack.
func TestAnObservationThatAnOperationOvertookIsMadeAgain(t *testing.T) {
	w, c := lcmtest.Created(t)
	second := lcmtest.UUID(3, 2)
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "worker"))
	c.Stacks[lcmtest.StackOne] = grown
	c.Meanwhile = func() { // the worker is gone before the observation is used
		c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
		w.Post(lcmtest.Heal(api.PhaseEnd, nil, lcmtest.WorkerServer))
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
	w, c := lcmtest.Created(t)
	lone := lcmtest.TopologyOf(lcmtest.Server(lcmtest.MasterServer, "master"))
	lone.StackID = lcmtest.StackOne
	w.Put(lcmtest.Spec(lone))
	before := w.Instance().Topology
	replacement, other := lcmtest.Server(lcmtest.UUID(1, 2), "storage"), lcmtest.UUID(9, 2)
	replacement.VolumeIds = []string{other}
	grown := lcmtest.TopologyOf(lcmtest.Server(lcmtest.MasterServer, "master"), replacement)
	grown.Volumes[0].ID = other
	c.Stacks[lcmtest.StackOne] = grown
	w.WantRefused(w.Enroll(replacement.ID), api.ProblemServerNotExpected)
	if diff := cmp.Diff(before, w.Instance().Topology); diff != "" {
		t.Errorf("the topology in force (-before +after):\n%s", diff)
	}
}

// A connection point of the stack stays what it was until an operation changes it.
func TestAConnectionPointThatIsAnotherOneNow(t *testing.T) {
	w, c := lcmtest.Created(t)
	before := lcmtest.FullTopology()
	before.StackID = lcmtest.StackOne
	before.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.9"}}}
	w.Put(lcmtest.Spec(before))
	grown := lcmtest.FullTopology()
	grown.Servers = append(grown.Servers, lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
	grown.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.10"}}}
	c.Stacks[lcmtest.StackOne] = grown
	w.Must(w.Enroll(lcmtest.UUID(3, 2)))
	if diff := cmp.Diff(before.ConnectionPoints, w.Instance().Topology.ConnectionPoints); diff != "" {
		t.Errorf("connection points (-before +after):\n%s", diff)
	}
}
