package lcm_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// retires lets the controller retire the servers that are gone, and says how often it asked
// the cloud.
func (w *world) retires(c *cloud) int {
	w.Helper()
	return c.asks(func() { w.must(w.LCM.Discovery.RetireGone(w.ctx)) })
}

// silent lets these nodes fall silent, while all others are heard of.
func (w *world) silent(ids ...string) {
	w.Helper()
	w.Clock.Advance(4 * cadence)
	all, err := w.LCM.Nodes.ListNodes(w.ctx, instanceID, true)
	w.must(err)
	for _, n := range all {
		if !slices.Contains(ids, n.ID) {
			w.LCM.Nodes.Seen(n.ID)
		}
	}
	w.must(w.LCM.Sweep(w.ctx))
}

// has reports whether the server is in the topology in force.
func (w *world) has(id string) bool {
	w.Helper()
	return slices.ContainsFunc(w.instance().Topology.Servers, func(s api.Server) bool { return s.ID == id })
}

// Tacker's v1 API calls no END after SCALE_IN.
func TestAServerThatLeavesIsRetiredWithoutAnEnd(t *testing.T) {
	w, c := inMembers(t)
	var log bytes.Buffer
	w.Enrollment.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.post(leave(memberStack))
	c.status(stackOne, "UPDATE_IN_PROGRESS", "")
	if n := w.retires(c); n != 0 {
		t.Errorf("the cloud was asked %d times although every node is heard of", n)
	}
	c.stacks[stackOne] = full()
	version := w.instance().DesiredVersion
	w.silent(secondWorker, thirdWorker)
	if n := w.retires(c); n != 1 {
		t.Errorf("the cloud was asked %d times for two servers, want once", n)
	}
	for _, id := range []string{secondWorker, thirdWorker} {
		if n := w.node(id); n.State != api.NodeRevoked || w.has(id) {
			t.Errorf("%s is %s, and in the topology: %v; want it retired", id, n.State, w.has(id))
		}
	}
	i := w.instance()
	if i.DesiredVersion != version+1 || len(i.Topology.Servers) != 3 || w.node(workerServer).State != api.NodeEnrolled {
		t.Errorf("the instance is %+v, want a version of its own without the two workers", i)
	}
	w.Clock.Advance(time.Hour)
	if n := w.retires(c); n != 0 {
		t.Errorf("the cloud was asked %d times more", n)
	}
	// What the END would do was done.
	end := w.post(scale(api.ScaleIn, api.PhaseEnd, nil))
	if now := w.instance().DesiredVersion; end.State != api.Completed || now != i.DesiredVersion {
		t.Errorf("SCALE_IN END is %+v and made version %d of %d", end, now, i.DesiredVersion)
	}
	if revoked := strings.Count(log.String(), "event="+api.EventIdentityRevoked); revoked != 2 {
		t.Errorf("%d identities were revoked, want 2", revoked)
	}
}

func TestALeavingServerThatIsNotGoneStays(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world, *cloud)
		asked   int
	}{
		"the stack has it still":     {func(_ *world, c *cloud) { c.stacks[stackOne] = members() }, 1},
		"the stack is in progress":   {func(_ *world, c *cloud) { c.status(stackOne, "UPDATE_IN_PROGRESS", "") }, 1},
		"the stack has failed":       {func(_ *world, c *cloud) { c.status(stackOne, "UPDATE_FAILED", "") }, 1},
		"the stack was rolled back":  {func(_ *world, c *cloud) { c.status(stackOne, "ROLLBACK_COMPLETE", "") }, 1},
		"the stack is being deleted": {func(_ *world, c *cloud) { c.status(stackOne, "DELETE_COMPLETE", "") }, 1},
		"the cloud is away":          {func(_ *world, c *cloud) { c.away = unreachable() }, 1},
		"another stack has its name": {func(_ *world, c *cloud) {
			c.stacks[stackTwo], c.names["vnf-1"] = full(), stackTwo
			delete(c.stacks, stackOne)
		}, 2},
		"it is back": {func(w *world, _ *cloud) { w.LCM.Nodes.Seen(secondWorker) }, 0},
		"an END came": {func(w *world, c *cloud) {
			gone := c.stacks[stackOne]
			c.stacks[stackOne] = members()
			w.post(scale(api.ScaleIn, api.PhaseEnd, nil))
			c.stacks[stackOne] = gone
		}, 0},
		"the instance is being terminated": {func(w *world, _ *cloud) { w.post(request(api.Terminate, api.PhaseStart)) }, 0},
		"the instance is not confirmed":    {func(w *world, _ *cloud) { w.restored(); w.silent(secondWorker) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := inMembers(t)
			w.post(leave(secondWorker))
			cloud.stacks[stackOne] = topologyOf(slices.DeleteFunc(members().Servers, func(s api.Server) bool { return s.ID == secondWorker })...)
			w.silent(secondWorker)
			c.prepare(w, cloud)
			if n := w.retires(cloud); n != c.asked || !w.has(secondWorker) || w.node(secondWorker).State == api.NodeRevoked {
				t.Errorf("asked %d times, want %d; the server is %+v", n, c.asked, w.node(secondWorker))
			}
		})
	}
}

func TestOnlyScaleInRetires(t *testing.T) {
	for name, start := range map[string]api.OperationRequest{
		"a HEAL named it":      {Operation: api.Heal, Phase: api.PhaseStart, VnfcInstanceIds: []string{secondWorker}},
		"a SCALE_IN of others": leave(workerServer),
	} {
		t.Run(name, func(t *testing.T) {
			w, c := inMembers(t)
			w.post(start)
			c.stacks[stackOne] = full()
			w.silent(secondWorker)
			if n := w.retires(c); n != 0 || !w.has(secondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.node(secondWorker))
			}
		})
	}
}

// Heat may be the last to know.
func TestALeavingServerIsLookedForAgain(t *testing.T) {
	const step = 5 * time.Second
	w, c := inMembers(t)
	w.post(leave(secondWorker))
	w.silent(secondWorker)
	asked := 0
	wait := func() {
		for range time.Hour / step {
			asked += w.retires(c)
			w.Clock.Advance(step)
		}
	}
	if wait(); asked != 6 {
		t.Errorf("the cloud was asked %d times within an hour, want 6", asked)
	}
	// Whoever changes the instance may know more.
	w.put(stackSpec("vnf-1"))
	asked = 0
	c.stacks[stackOne] = full()
	if wait(); asked != 1 || w.has(secondWorker) {
		t.Errorf("asked %d times after a request; the server is %+v", asked, w.node(secondWorker))
	}
}

func TestAServerThatWasSilentBeforeItsStartIsRetired(t *testing.T) {
	for name, prepare := range map[string]func(*world, *cloud){
		"it is lost":        func(w *world, _ *cloud) { w.silent(secondWorker) },
		"its identity ends": func(w *world, _ *cloud) { w.must(w.Enrollment.Revoke(w.ctx, secondWorker, "a test")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := inMembers(t)
			prepare(w, c)
			if n := w.retires(c); n != 0 {
				t.Errorf("asked %d times for a server that is to stay", n)
			}
			w.post(leave(secondWorker))
			if n := w.retires(c); n != 1 || !w.has(secondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.node(secondWorker))
			}
			c.stacks[stackOne] = full()
			w.Clock.Advance(shortestPause)
			if n := w.retires(c); n != 1 || w.has(secondWorker) || w.node(secondWorker).State != api.NodeRevoked {
				t.Errorf("asked %d times; the server is %+v", n, w.node(secondWorker))
			}
		})
	}
}

func TestARestartForgetsNoLeavingServer(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"that was lost":        func(w *world) { w.silent(secondWorker) },
		"that falls silent":    func(*world) {},
		"that has no identity": func(w *world) { w.must(w.Enrollment.Revoke(w.ctx, secondWorker, "a test")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := inMembers(t)
			w.post(leave(secondWorker))
			prepare(w)
			c.stacks[stackOne] = full()
			w.restart()
			w.silent(secondWorker)
			if n := w.retires(c); n != 1 || w.has(secondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.node(secondWorker))
			}
		})
	}
}

// An END decides about the servers that it is about, and it has not come.
func TestWhoIsGoneForAnotherReasonIsLeftToItsEnd(t *testing.T) {
	w, c := inMembers(t)
	w.post(leave(secondWorker))
	without := topologyOf(slices.DeleteFunc(members().Servers, func(s api.Server) bool { return s.ID == thirdWorker })...)
	without.StackID = stackOne
	w.post(heal(api.PhaseStart, without, workerServer))
	c.stacks[stackOne] = full()
	w.silent(secondWorker, thirdWorker)
	w.retires(c)
	if got := w.node(secondWorker); got.State != api.NodeRevoked || w.has(secondWorker) {
		t.Errorf("the worker that leaves is %+v", got)
	}
	if got := w.node(thirdWorker); got.State != api.NodeLost {
		t.Errorf("the worker that no SCALE_IN named is %+v, want it left to the END", got)
	}
}
