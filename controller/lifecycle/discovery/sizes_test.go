package discovery_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const twoGiB = 2 << 30

// extended is the stack after its volume was extended.
func extended(c *lifecycletest.Cloud, size int64) {
	t := *c.Stacks[lifecycletest.StackOne]
	t.Volumes = []api.TopologyVolume{t.Volumes[0]}
	t.Volumes[0].SizeBytes = size
	c.Stacks[lifecycletest.StackOne] = &t
}

// differs is a report that the server's disk has another size than its volume.
func differs(w *lifecycletest.World, id string) {
	w.Helper()
	s := w.Status(id)
	s.AppliedGeneration, s.AppliedDigest = 0, ""
	for _, name := range []string{api.ConditionVolumesMounted, api.ConditionReady} {
		c := s.Condition(name)
		c.Status, c.Reason = api.ConditionFalse, api.ReasonSizeMismatch
	}
	w.Report(id, s)
}

// learns lets the controller learn sizes, and says how often it asked the cloud.
func learns(w *lifecycletest.World, c *lifecycletest.Cloud) int {
	w.Helper()
	return c.Asks(func() { w.Must(w.Lifecycle.Discovery.LearnSizes(w.Ctx)) })
}

// size is that of the volume: in the topology, in its record, in its server's document.
func size(w *lifecycletest.World) int64 {
	w.Helper()
	size := w.Instance().Topology.Volumes[0].SizeBytes
	v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume)
	w.Must(err)
	config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
	w.Must(err)
	if told := config.Storage.Volumes[0].SizeBytes; v.SizeBytes != size || told != size {
		w.Errorf("the topology says %d bytes, the record %d, the document %d", size, v.SizeBytes, told)
	}
	return size
}

func TestAnExtendedVolumeIsLearnedFromItsStack(t *testing.T) {
	w, c := lifecycletest.Created(t)
	before := w.Instance().Topology
	extended(c, twoGiB)
	if n := learns(w, c); n != 0 {
		t.Errorf("the cloud was asked %d times although no node has reported anything", n)
	}
	differs(w, lifecycletest.StorageServer)
	if n := learns(w, c); n != 1 || size(w) != twoGiB {
		t.Errorf("the cloud was asked %d times, and the volume has %d bytes; want once, and %d", n, size(w), twoGiB)
	}
	before.Volumes[0].SizeBytes = twoGiB
	if diff := cmp.Diff(before, w.Instance().Topology); diff != "" {
		t.Errorf("the topology in force (-want +got):\n%s", diff)
	}
	if got := w.Node(lifecycletest.WorkerServer).Generation; got != 1 {
		t.Errorf("the worker has generation %d, want 1: nothing of it has changed", got)
	}
	w.Converge(lifecycletest.StorageServer)
	w.Clock.Advance(time.Hour)
	if n := learns(w, c); n != 0 || !w.Node(lifecycletest.StorageServer).Ready {
		t.Errorf("asked %d times more; the storage server is %+v", n, w.Node(lifecycletest.StorageServer))
	}
}

// Cinder may be the last to know.
func TestAVolumeThatIsStillBeingExtended(t *testing.T) {
	w, c := lifecycletest.Created(t)
	differs(w, lifecycletest.StorageServer)
	if n := learns(w, c); n != 1 || size(w) != 1<<30 {
		t.Fatalf("asked %d times, %d bytes", n, size(w))
	}
	extended(c, twoGiB)
	if n := learns(w, c); n != 0 {
		t.Errorf("asked %d times within the shortest pause", n)
	}
	w.Clock.Advance(lifecycletest.ShortestPause)
	if n := learns(w, c); n != 1 || size(w) != twoGiB {
		t.Errorf("asked %d times, %d bytes", n, size(w))
	}
}

// Whatever nodes report, the cloud is asked seldom.
func TestObservationsForSizesAreFew(t *testing.T) {
	const hour, step = time.Hour, 5 * time.Second
	for name, c := range map[string]struct {
		report func(*lifecycletest.World)
		most   int
	}{
		"a node that reports it once":   {func(*lifecycletest.World) {}, 6},
		"a node that reports it always": {func(w *lifecycletest.World) { differs(w, lifecycletest.StorageServer) }, 6},
		"a node that changes its mind": {func(w *lifecycletest.World) {
			w.Report(lifecycletest.StorageServer, w.Status(lifecycletest.StorageServer))
			differs(w, lifecycletest.StorageServer)
		}, 6 + int(hour/lifecycletest.LongestPause)},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Created(t)
			differs(w, lifecycletest.StorageServer)
			asked := 0
			for range hour / step {
				c.report(w)
				asked += learns(w, cloud)
				w.Clock.Advance(step)
			}
			if asked == 0 || asked > c.most {
				t.Errorf("the cloud was asked %d times in %v, want at least once and at most %d times", asked, hour, c.most)
			}
		})
	}
}

func TestSizesThatAreNotLearned(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*lifecycletest.World, *lifecycletest.Cloud)
		asked   int
		want    int64
	}{
		"the volume is smaller in Cinder": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { extended(c, 1<<29) }, 1, 1 << 30},
		"the topology has no size": {func(w *lifecycletest.World, c *lifecycletest.Cloud) {
			w.Put(unsized())
			differs(w, lifecycletest.StorageServer)
		}, 1, 0},
		"the instance is being terminated": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
		}, 0, 1 << 30},
		"the instance is not confirmed": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) { w.Restore() }, 0, 1 << 30},
		"the node is well again": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Report(lifecycletest.StorageServer, w.Status(lifecycletest.StorageServer))
		}, 0, 1 << 30},
		"the cloud is away": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { c.Away = lifecycletest.Unreachable() }, 1, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Created(t)
			extended(cloud, twoGiB)
			differs(w, lifecycletest.StorageServer)
			c.prepare(w, cloud)
			if n := learns(w, cloud); n != c.asked || w.Instance().Topology.Volumes[0].SizeBytes != c.want {
				t.Errorf("asked %d times, want %d; the volume has %d bytes, want %d", n, c.asked, w.Instance().Topology.Volumes[0].SizeBytes, c.want)
			}
		})
	}
}

// unsized is a request whose topology has no sizes.
func unsized() api.InstanceSpec {
	t := lifecycletest.FullTopology()
	t.StackID = lifecycletest.StackOne
	t.Volumes[0].SizeBytes = 0
	return lifecycletest.Spec(t)
}

func TestAReportedSizeSurvivesARestartAndACloudThatIsAway(t *testing.T) {
	w, c := lifecycletest.Created(t)
	extended(c, twoGiB)
	c.Away = lifecycletest.Unreachable()
	differs(w, lifecycletest.StorageServer)
	learns(w, c)
	w.Restart()
	c.Away = nil
	if n := learns(w, c); n != 1 || size(w) != twoGiB {
		t.Errorf("asked %d times, %d bytes", n, size(w))
	}
}

// Operations and PUTs observe the stack anyway.
func TestOperationsAndPutsLearnTheSize(t *testing.T) {
	for name, do := range map[string]func(*lifecycletest.World){
		"an END": func(w *lifecycletest.World) { w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil)) },
		"a PUT":  func(w *lifecycletest.World) { w.Put(lifecycletest.StackSpec("vnf-1")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.Created(t)
			extended(c, twoGiB)
			do(w)
			if got := size(w); got != twoGiB {
				t.Errorf("%d bytes", got)
			}
		})
	}
}

// An END that follows waits for the room.
func TestAnEndWaitsForTheRoom(t *testing.T) {
	w, c := lifecycletest.Created(t)
	extended(c, twoGiB)
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	differs(w, lifecycletest.StorageServer)
	if got := w.Operation(op.ID); got.State != api.Processing {
		t.Errorf("SCALE_OUT END is %+v, want PROCESSING", got)
	}
	w.Converge(lifecycletest.StorageServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
}
