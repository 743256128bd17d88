package discovery_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/invariant"
	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// SCALE_IN without an END, as Tacker's v1 API posts it.
func TestAServerThatHasLeftTheClusterIsRetiredWithoutAnEnd(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{"as it wants": lcmtest.ScaleInStart(lcmtest.MemberStack), "by force": lcmtest.Forced(lcmtest.ScaleInStart(lcmtest.MemberStack))} {
		t.Run(name, func(t *testing.T) { retiredWithoutAnEnd(t, r) })
	}
}

func retiredWithoutAnEnd(t *testing.T, r api.OperationRequest) {
	w, c := lcmtest.CreatedWithMembers(t)
	w.Put(lcmtest.AsMembers(api.InstanceSpec{AdditionalParams: lcmtest.Parameters("10.10.0.0/24")}))
	for range 2 {
		w.Converge(w.Instance().Nodes...)
	}
	start := w.Post(r)
	w.ReportLeft(lcmtest.MasterServer)
	w.WantState(start, api.Completed)
	w.WantAskedToLeave(lcmtest.MasterServer, lcmtest.SecondWorker, lcmtest.ThirdWorker)
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	w.FallSilent(lcmtest.SecondWorker, lcmtest.ThirdWorker)
	retires(w, c)
	if has(w, lcmtest.SecondWorker) || w.Node(lcmtest.ThirdWorker).State != api.NodeRevoked {
		t.Errorf("%s is still there, or %s is %+v", lcmtest.SecondWorker, lcmtest.ThirdWorker, w.Node(lcmtest.ThirdWorker))
	}
	w.WantAskedToLeave(lcmtest.MasterServer)
	if broken, err := invariant.Check(w.Store, nil); err != nil || len(broken) > 0 {
		t.Errorf("the store is broken: %v, %v", broken, err)
	}
}

// retires lets the controller retire the servers that are gone, and says how often it asked
// the cloud.
func retires(w *lcmtest.World, c *lcmtest.Cloud) int {
	w.Helper()
	return c.Asks(func() { w.Must(w.LCM.Discovery.RetireGone(w.Ctx)) })
}

// has reports whether the server is in the topology in force.
func has(w *lcmtest.World, id string) bool {
	w.Helper()
	return slices.ContainsFunc(w.Instance().Topology.Servers, func(s api.Server) bool { return s.ID == id })
}

// Tacker's v1 API calls no END after SCALE_IN.
func TestAServerThatLeavesIsRetiredWithoutAnEnd(t *testing.T) {
	w, c := lcmtest.CreatedWithMembers(t)
	var log bytes.Buffer
	w.Enrollment.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.Post(lcmtest.ScaleInStart(lcmtest.MemberStack))
	c.SetStatus(lcmtest.StackOne, "UPDATE_IN_PROGRESS", "")
	if n := retires(w, c); n != 0 {
		t.Errorf("the cloud was asked %d times although every node is heard of", n)
	}
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	version := w.Instance().DesiredVersion
	w.FallSilent(lcmtest.SecondWorker, lcmtest.ThirdWorker)
	if n := retires(w, c); n != 1 {
		t.Errorf("the cloud was asked %d times for two servers, want once", n)
	}
	for _, id := range []string{lcmtest.SecondWorker, lcmtest.ThirdWorker} {
		if n := w.Node(id); n.State != api.NodeRevoked || has(w, id) {
			t.Errorf("%s is %s, and in the topology: %v; want it retired", id, n.State, has(w, id))
		}
	}
	i := w.Instance()
	if i.DesiredVersion != version+1 || len(i.Topology.Servers) != 3 || w.Node(lcmtest.WorkerServer).State != api.NodeEnrolled {
		t.Errorf("the instance is %+v, want a version of its own without the two workers", i)
	}
	w.Clock.Advance(time.Hour)
	if n := retires(w, c); n != 0 {
		t.Errorf("the cloud was asked %d times more", n)
	}
	// What the END would do was done.
	end := w.Post(lcmtest.Scale(api.ScaleIn, api.PhaseEnd, nil))
	if now := w.Instance().DesiredVersion; end.State != api.Completed || now != i.DesiredVersion {
		t.Errorf("SCALE_IN END is %+v and made version %d of %d", end, now, i.DesiredVersion)
	}
	if revoked := strings.Count(log.String(), "event="+api.EventIdentityRevoked); revoked != 2 {
		t.Errorf("%d identities were revoked, want 2", revoked)
	}
}

func TestALeavingServerThatIsNotGoneStays(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*lcmtest.World, *lcmtest.Cloud)
		asked   int
	}{
		"the stack has it still":     {func(_ *lcmtest.World, c *lcmtest.Cloud) { c.Stacks[lcmtest.StackOne] = lcmtest.MemberTopology() }, 1},
		"the stack is in progress":   {func(_ *lcmtest.World, c *lcmtest.Cloud) { c.SetStatus(lcmtest.StackOne, "UPDATE_IN_PROGRESS", "") }, 1},
		"the stack has failed":       {func(_ *lcmtest.World, c *lcmtest.Cloud) { c.SetStatus(lcmtest.StackOne, "UPDATE_FAILED", "") }, 1},
		"the stack was rolled back":  {func(_ *lcmtest.World, c *lcmtest.Cloud) { c.SetStatus(lcmtest.StackOne, "ROLLBACK_COMPLETE", "") }, 1},
		"the stack is being deleted": {func(_ *lcmtest.World, c *lcmtest.Cloud) { c.SetStatus(lcmtest.StackOne, "DELETE_COMPLETE", "") }, 1},
		"the cloud is away":          {func(_ *lcmtest.World, c *lcmtest.Cloud) { c.Away = lcmtest.Unreachable() }, 1},
		"another stack has its name": {func(_ *lcmtest.World, c *lcmtest.Cloud) {
			c.Stacks[lcmtest.StackTwo], c.Names["vnf-1"] = lcmtest.FullTopology(), lcmtest.StackTwo
			delete(c.Stacks, lcmtest.StackOne)
		}, 2},
		"it is back": {func(w *lcmtest.World, _ *lcmtest.Cloud) { w.LCM.Nodes.Seen(lcmtest.SecondWorker) }, 0},
		"an END came": {func(w *lcmtest.World, c *lcmtest.Cloud) {
			gone := c.Stacks[lcmtest.StackOne]
			c.Stacks[lcmtest.StackOne] = lcmtest.MemberTopology()
			w.Post(lcmtest.Scale(api.ScaleIn, api.PhaseEnd, nil))
			c.Stacks[lcmtest.StackOne] = gone
		}, 0},
		"the instance is being terminated": {func(w *lcmtest.World, _ *lcmtest.Cloud) { w.Post(lcmtest.Request(api.Terminate, api.PhaseStart)) }, 0},
		"the instance is not confirmed":    {func(w *lcmtest.World, _ *lcmtest.Cloud) { w.Restore(); w.FallSilent(lcmtest.SecondWorker) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lcmtest.CreatedWithMembers(t)
			w.Post(lcmtest.ScaleInStart(lcmtest.SecondWorker))
			cloud.Stacks[lcmtest.StackOne] = lcmtest.TopologyOf(slices.DeleteFunc(lcmtest.MemberTopology().Servers, func(s api.Server) bool { return s.ID == lcmtest.SecondWorker })...)
			w.FallSilent(lcmtest.SecondWorker)
			c.prepare(w, cloud)
			if n := retires(w, cloud); n != c.asked || !has(w, lcmtest.SecondWorker) || w.Node(lcmtest.SecondWorker).State == api.NodeRevoked {
				t.Errorf("asked %d times, want %d; the server is %+v", n, c.asked, w.Node(lcmtest.SecondWorker))
			}
		})
	}
}

func TestOnlyScaleInRetires(t *testing.T) {
	for name, start := range map[string]api.OperationRequest{
		"a HEAL named it":      {Operation: api.Heal, Phase: api.PhaseStart, VnfcInstanceIds: []string{lcmtest.SecondWorker}},
		"a SCALE_IN of others": lcmtest.ScaleInStart(lcmtest.WorkerServer),
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lcmtest.CreatedWithMembers(t)
			w.Post(start)
			c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
			w.FallSilent(lcmtest.SecondWorker)
			if n := retires(w, c); n != 0 || !has(w, lcmtest.SecondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lcmtest.SecondWorker))
			}
		})
	}
}

// Heat may be the last to know.
func TestALeavingServerIsLookedForAgain(t *testing.T) {
	const step = 5 * time.Second
	w, c := lcmtest.CreatedWithMembers(t)
	w.Post(lcmtest.ScaleInStart(lcmtest.SecondWorker))
	w.FallSilent(lcmtest.SecondWorker)
	asked := 0
	wait := func() {
		for range time.Hour / step {
			asked += retires(w, c)
			w.Clock.Advance(step)
		}
	}
	if wait(); asked != 6 {
		t.Errorf("the cloud was asked %d times within an hour, want 6", asked)
	}
	// Whoever changes the instance may know more.
	w.Put(lcmtest.StackSpec("vnf-1"))
	asked = 0
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	if wait(); asked != 1 || has(w, lcmtest.SecondWorker) {
		t.Errorf("asked %d times after a request; the server is %+v", asked, w.Node(lcmtest.SecondWorker))
	}
}

func TestAServerThatWasSilentBeforeItsStartIsRetired(t *testing.T) {
	for name, prepare := range map[string]func(*lcmtest.World, *lcmtest.Cloud){
		"it is lost": func(w *lcmtest.World, _ *lcmtest.Cloud) { w.FallSilent(lcmtest.SecondWorker) },
		"its identity ends": func(w *lcmtest.World, _ *lcmtest.Cloud) {
			w.Must(w.Enrollment.Revoke(w.Ctx, lcmtest.SecondWorker, "a test"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lcmtest.CreatedWithMembers(t)
			prepare(w, c)
			if n := retires(w, c); n != 0 {
				t.Errorf("asked %d times for a server that is to stay", n)
			}
			w.Post(lcmtest.ScaleInStart(lcmtest.SecondWorker))
			if n := retires(w, c); n != 1 || !has(w, lcmtest.SecondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lcmtest.SecondWorker))
			}
			c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
			w.Clock.Advance(lcmtest.ShortestPause)
			if n := retires(w, c); n != 1 || has(w, lcmtest.SecondWorker) || w.Node(lcmtest.SecondWorker).State != api.NodeRevoked {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lcmtest.SecondWorker))
			}
		})
	}
}

func TestARestartForgetsNoLeavingServer(t *testing.T) {
	for name, prepare := range map[string]func(*lcmtest.World){
		"that was lost":        func(w *lcmtest.World) { w.FallSilent(lcmtest.SecondWorker) },
		"that falls silent":    func(*lcmtest.World) {},
		"that has no identity": func(w *lcmtest.World) { w.Must(w.Enrollment.Revoke(w.Ctx, lcmtest.SecondWorker, "a test")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lcmtest.CreatedWithMembers(t)
			w.Post(lcmtest.ScaleInStart(lcmtest.SecondWorker))
			prepare(w)
			c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
			w.Restart()
			w.FallSilent(lcmtest.SecondWorker)
			if n := retires(w, c); n != 1 || has(w, lcmtest.SecondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lcmtest.SecondWorker))
			}
		})
	}
}

// An END decides about the servers that it is about, and it has not come.
func TestWhoIsGoneForAnotherReasonIsLeftToItsEnd(t *testing.T) {
	w, c := lcmtest.CreatedWithMembers(t)
	w.Post(lcmtest.ScaleInStart(lcmtest.SecondWorker))
	without := lcmtest.TopologyOf(slices.DeleteFunc(lcmtest.MemberTopology().Servers, func(s api.Server) bool { return s.ID == lcmtest.ThirdWorker })...)
	without.StackID = lcmtest.StackOne
	w.Post(lcmtest.Heal(api.PhaseStart, without, lcmtest.WorkerServer))
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	w.FallSilent(lcmtest.SecondWorker, lcmtest.ThirdWorker)
	retires(w, c)
	if got := w.Node(lcmtest.SecondWorker); got.State != api.NodeRevoked || has(w, lcmtest.SecondWorker) {
		t.Errorf("the worker that leaves is %+v", got)
	}
	if got := w.Node(lcmtest.ThirdWorker); got.State != api.NodeLost {
		t.Errorf("the worker that no SCALE_IN named is %+v, want it left to the END", got)
	}
}
