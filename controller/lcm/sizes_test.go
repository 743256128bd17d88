package lcm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

const twoGiB = 2 << 30

// extended is the stack after its volume was extended.
func (c *cloud) extended(size int64) {
	t := *c.stacks[stackOne]
	t.Volumes = []api.TopologyVolume{t.Volumes[0]}
	t.Volumes[0].SizeBytes = size
	c.stacks[stackOne] = &t
}

// differs is a report that the server's disk has another size than its volume.
func (w *world) differs(id string) {
	w.Helper()
	s := w.status(id)
	s.AppliedGeneration, s.AppliedDigest = 0, ""
	for _, name := range []string{api.ConditionVolumesMounted, api.ConditionReady} {
		c := s.Condition(name)
		c.Status, c.Reason = api.ConditionFalse, api.ReasonSizeMismatch
	}
	w.report(id, s)
}

// learns lets the controller learn sizes, and says how often it asked the cloud.
func (w *world) learns(c *cloud) int {
	w.Helper()
	return c.asks(func() { w.must(w.LCM.Discovery.LearnSizes(w.ctx)) })
}

// size is that of the volume: in the topology, in its record, in its server's document.
func (w *world) size() int64 {
	w.Helper()
	size := w.instance().Topology.Volumes[0].SizeBytes
	v, err := w.Permits.Get(w.ctx, volume)
	w.must(err)
	config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
	w.must(err)
	if told := config.Storage.Volumes[0].SizeBytes; v.SizeBytes != size || told != size {
		w.Errorf("the topology says %d bytes, the record %d, the document %d", size, v.SizeBytes, told)
	}
	return size
}

func TestAnExtendedVolumeIsLearnedFromItsStack(t *testing.T) {
	w, c := created(t)
	before := w.instance().Topology
	c.extended(twoGiB)
	if n := w.learns(c); n != 0 {
		t.Errorf("the cloud was asked %d times although no node has reported anything", n)
	}
	w.differs(storageServer)
	if n := w.learns(c); n != 1 || w.size() != twoGiB {
		t.Errorf("the cloud was asked %d times, and the volume has %d bytes; want once, and %d", n, w.size(), twoGiB)
	}
	before.Volumes[0].SizeBytes = twoGiB
	if diff := cmp.Diff(before, w.instance().Topology); diff != "" {
		t.Errorf("the topology in force (-want +got):\n%s", diff)
	}
	if got := w.node(workerServer).Generation; got != 1 {
		t.Errorf("the worker has generation %d, want 1: nothing of it has changed", got)
	}
	w.converge(storageServer)
	w.Clock.Advance(time.Hour)
	if n := w.learns(c); n != 0 || !w.node(storageServer).Ready {
		t.Errorf("asked %d times more; the storage server is %+v", n, w.node(storageServer))
	}
}

// Cinder may be the last to know.
func TestAVolumeThatIsStillBeingExtended(t *testing.T) {
	w, c := created(t)
	w.differs(storageServer)
	if n := w.learns(c); n != 1 || w.size() != 1<<30 {
		t.Fatalf("asked %d times, %d bytes", n, w.size())
	}
	c.extended(twoGiB)
	if n := w.learns(c); n != 0 {
		t.Errorf("asked %d times within the shortest pause", n)
	}
	w.Clock.Advance(shortestPause)
	if n := w.learns(c); n != 1 || w.size() != twoGiB {
		t.Errorf("asked %d times, %d bytes", n, w.size())
	}
}

// Whatever nodes report, the cloud is asked seldom.
func TestObservationsForSizesAreFew(t *testing.T) {
	const hour, step = time.Hour, 5 * time.Second
	for name, c := range map[string]struct {
		report func(*world)
		most   int
	}{
		"a node that reports it once":   {func(*world) {}, 6},
		"a node that reports it always": {func(w *world) { w.differs(storageServer) }, 6},
		"a node that changes its mind":  {func(w *world) { w.report(storageServer, w.status(storageServer)); w.differs(storageServer) }, 6 + int(hour/longestPause)},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := created(t)
			w.differs(storageServer)
			asked := 0
			for range hour / step {
				c.report(w)
				asked += w.learns(cloud)
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
		prepare func(*world, *cloud)
		asked   int
		want    int64
	}{
		"the volume is smaller in Cinder":  {func(_ *world, c *cloud) { c.extended(1 << 29) }, 1, 1 << 30},
		"the topology has no size":         {func(w *world, c *cloud) { w.put(unsized()); w.differs(storageServer) }, 1, 0},
		"the instance is being terminated": {func(w *world, _ *cloud) { w.post(request(api.Terminate, api.PhaseStart)) }, 0, 1 << 30},
		"the instance is not confirmed":    {func(w *world, _ *cloud) { w.restored() }, 0, 1 << 30},
		"the node is well again":           {func(w *world, _ *cloud) { w.report(storageServer, w.status(storageServer)) }, 0, 1 << 30},
		"the cloud is away":                {func(_ *world, c *cloud) { c.away = unreachable() }, 1, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := created(t)
			cloud.extended(twoGiB)
			w.differs(storageServer)
			c.prepare(w, cloud)
			if n := w.learns(cloud); n != c.asked || w.instance().Topology.Volumes[0].SizeBytes != c.want {
				t.Errorf("asked %d times, want %d; the volume has %d bytes, want %d", n, c.asked, w.instance().Topology.Volumes[0].SizeBytes, c.want)
			}
		})
	}
}

// unsized is a request whose topology has no sizes.
func unsized() api.InstanceSpec {
	t := full()
	t.StackID = stackOne
	t.Volumes[0].SizeBytes = 0
	return spec(t)
}

func TestAReportedSizeSurvivesARestartAndACloudThatIsAway(t *testing.T) {
	w, c := created(t)
	c.extended(twoGiB)
	c.away = unreachable()
	w.differs(storageServer)
	w.learns(c)
	w.restart()
	c.away = nil
	if n := w.learns(c); n != 1 || w.size() != twoGiB {
		t.Errorf("asked %d times, %d bytes", n, w.size())
	}
}

// Operations and PUTs observe the stack anyway.
func TestOperationsAndPutsLearnTheSize(t *testing.T) {
	for name, do := range map[string]func(*world){
		"an END": func(w *world) { w.post(scale(api.ScaleOut, api.PhaseEnd, nil)) },
		"a PUT":  func(w *world) { w.put(stackSpec("vnf-1")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := created(t)
			c.extended(twoGiB)
			do(w)
			if got := w.size(); got != twoGiB {
				t.Errorf("%d bytes", got)
			}
		})
	}
}

// An END that follows waits for the room.
func TestAnEndWaitsForTheRoom(t *testing.T) {
	w, c := created(t)
	c.extended(twoGiB)
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, nil))
	w.differs(storageServer)
	if got := w.operation(op.ID); got.State != api.Processing {
		t.Errorf("SCALE_OUT END is %+v, want PROCESSING", got)
	}
	w.converge(storageServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED", got)
	}
}
