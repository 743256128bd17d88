package discovery_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/invariant"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// SCALE_IN without an END, as Tacker's v1 API posts it.
func TestAServerThatHasLeftTheClusterIsRetiredWithoutAnEnd(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{"as it wants": lifecycletest.ScaleInStart(lifecycletest.MemberStack), "by force": lifecycletest.Forced(lifecycletest.ScaleInStart(lifecycletest.MemberStack))} {
		t.Run(name, func(t *testing.T) { retiredWithoutAnEnd(t, r) })
	}
}

func retiredWithoutAnEnd(t *testing.T, r api.OperationRequest) {
	w, c := lifecycletest.CreatedWithMembers(t)
	w.Put(lifecycletest.AsMembers(api.InstanceSpec{AdditionalParams: lifecycletest.Parameters("10.10.0.0/24")}))
	for range 2 {
		w.Converge(w.Instance().Nodes...)
	}
	start := w.Post(r)
	w.ReportLeft(lifecycletest.MasterServer)
	w.WantState(start, api.Completed)
	w.WantAskedToLeave(lifecycletest.MasterServer, lifecycletest.SecondWorker, lifecycletest.ThirdWorker)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	w.FallSilent(lifecycletest.SecondWorker, lifecycletest.ThirdWorker)
	retires(w, c)
	if has(w, lifecycletest.SecondWorker) || w.Node(lifecycletest.ThirdWorker).State != api.NodeRevoked {
		t.Errorf("%s is still there, or %s is %+v", lifecycletest.SecondWorker, lifecycletest.ThirdWorker, w.Node(lifecycletest.ThirdWorker))
	}
	w.WantAskedToLeave(lifecycletest.MasterServer)
	if broken, err := invariant.Check(w.Store, nil); err != nil || len(broken) > 0 {
		t.Errorf("the store is broken: %v, %v", broken, err)
	}
}

// retires lets the controller retire the servers that are gone, and says how often it asked
// the cloud.
func retires(w *lifecycletest.World, c *lifecycletest.Cloud) int {
	w.Helper()
	return c.Asks(func() { w.Must(w.Lifecycle.Discovery.RetireGone(w.Ctx)) })
}

// has reports whether the server is in the topology in force.
func has(w *lifecycletest.World, id string) bool {
	w.Helper()
	return slices.ContainsFunc(w.Instance().Topology.Servers, func(s api.Server) bool { return s.ID == id })
}

// Tacker's v1 API calls no END after SCALE_IN.
func TestAServerThatLeavesIsRetiredWithoutAnEnd(t *testing.T) {
	w, c := lifecycletest.CreatedWithMembers(t)
	var log bytes.Buffer
	w.Enrollment.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.Post(lifecycletest.ScaleInStart(lifecycletest.MemberStack))
	c.SetStatus(lifecycletest.StackOne, "UPDATE_IN_PROGRESS", "")
	if n := retires(w, c); n != 0 {
		t.Errorf("the cloud was asked %d times although every node is heard of", n)
	}
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	version := w.Instance().DesiredVersion
	w.FallSilent(lifecycletest.SecondWorker, lifecycletest.ThirdWorker)
	if n := retires(w, c); n != 1 {
		t.Errorf("the cloud was asked %d times for two servers, want once", n)
	}
	for _, id := range []string{lifecycletest.SecondWorker, lifecycletest.ThirdWorker} {
		if n := w.Node(id); n.State != api.NodeRevoked || has(w, id) {
			t.Errorf("%s is %s, and in the topology: %v; want it retired", id, n.State, has(w, id))
		}
	}
	i := w.Instance()
	if i.DesiredVersion != version+1 || len(i.Topology.Servers) != 3 || w.Node(lifecycletest.WorkerServer).State != api.NodeEnrolled {
		t.Errorf("the instance is %+v, want a version of its own without the two workers", i)
	}
	w.Clock.Advance(time.Hour)
	if n := retires(w, c); n != 0 {
		t.Errorf("the cloud was asked %d times more", n)
	}
	// What the END would do was done.
	end := w.Post(lifecycletest.Scale(api.ScaleIn, api.PhaseEnd, nil))
	if now := w.Instance().DesiredVersion; end.State != api.Completed || now != i.DesiredVersion {
		t.Errorf("SCALE_IN END is %+v and made version %d of %d", end, now, i.DesiredVersion)
	}
	if revoked := strings.Count(log.String(), "event="+api.EventIdentityRevoked); revoked != 2 {
		t.Errorf("%d identities were revoked, want 2", revoked)
	}
}

func TestALeavingServerThatIsNotGoneStays(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*lifecycletest.World, *lifecycletest.Cloud)
		asked   int
	}{
		"the stack has it still": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.Stacks[lifecycletest.StackOne] = lifecycletest.MemberTopology()
		}, 1},
		"the stack is in progress": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.SetStatus(lifecycletest.StackOne, "UPDATE_IN_PROGRESS", "")
		}, 1},
		"the stack has failed": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.SetStatus(lifecycletest.StackOne, "UPDATE_FAILED", "")
		}, 1},
		"the stack was rolled back": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.SetStatus(lifecycletest.StackOne, "ROLLBACK_COMPLETE", "")
		}, 1},
		"the stack is being deleted": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.SetStatus(lifecycletest.StackOne, "DELETE_COMPLETE", "")
		}, 1},
		"the cloud is away": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { c.Away = lifecycletest.Unreachable() }, 1},
		"another stack has its name": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.Stacks[lifecycletest.StackTwo], c.Names["vnf-1"] = lifecycletest.FullTopology(), lifecycletest.StackTwo
			delete(c.Stacks, lifecycletest.StackOne)
		}, 2},
		"it is back": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Lifecycle.Nodes.Seen(lifecycletest.SecondWorker)
		}, 0},
		"an END came": {func(w *lifecycletest.World, c *lifecycletest.Cloud) {
			gone := c.Stacks[lifecycletest.StackOne]
			c.Stacks[lifecycletest.StackOne] = lifecycletest.MemberTopology()
			w.Post(lifecycletest.Scale(api.ScaleIn, api.PhaseEnd, nil))
			c.Stacks[lifecycletest.StackOne] = gone
		}, 0},
		"the instance is being terminated": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
		}, 0},
		"the instance is not confirmed": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Restore()
			w.FallSilent(lifecycletest.SecondWorker)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.CreatedWithMembers(t)
			w.Post(lifecycletest.ScaleInStart(lifecycletest.SecondWorker))
			cloud.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(slices.DeleteFunc(lifecycletest.MemberTopology().Servers, func(s api.Server) bool { return s.ID == lifecycletest.SecondWorker })...)
			w.FallSilent(lifecycletest.SecondWorker)
			c.prepare(w, cloud)
			if n := retires(w, cloud); n != c.asked || !has(w, lifecycletest.SecondWorker) || w.Node(lifecycletest.SecondWorker).State == api.NodeRevoked {
				t.Errorf("asked %d times, want %d; the server is %+v", n, c.asked, w.Node(lifecycletest.SecondWorker))
			}
		})
	}
}

func TestOnlyScaleInRetires(t *testing.T) {
	for name, start := range map[string]api.OperationRequest{
		"a HEAL named it":      {Operation: api.Heal, Phase: api.PhaseStart, VnfcInstanceIds: []string{lifecycletest.SecondWorker}},
		"a SCALE_IN of others": lifecycletest.ScaleInStart(lifecycletest.WorkerServer),
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.CreatedWithMembers(t)
			w.Post(start)
			c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			w.FallSilent(lifecycletest.SecondWorker)
			if n := retires(w, c); n != 0 || !has(w, lifecycletest.SecondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lifecycletest.SecondWorker))
			}
		})
	}
}

// Heat may be the last to know.
func TestALeavingServerIsLookedForAgain(t *testing.T) {
	const step = 5 * time.Second
	w, c := lifecycletest.CreatedWithMembers(t)
	w.Post(lifecycletest.ScaleInStart(lifecycletest.SecondWorker))
	w.FallSilent(lifecycletest.SecondWorker)
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
	w.Put(lifecycletest.StackSpec("vnf-1"))
	asked = 0
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	if wait(); asked != 1 || has(w, lifecycletest.SecondWorker) {
		t.Errorf("asked %d times after a request; the server is %+v", asked, w.Node(lifecycletest.SecondWorker))
	}
}

func TestAServerThatWasSilentBeforeItsStartIsRetired(t *testing.T) {
	for name, prepare := range map[string]func(*lifecycletest.World, *lifecycletest.Cloud){
		"it is lost": func(w *lifecycletest.World, _ *lifecycletest.Cloud) { w.FallSilent(lifecycletest.SecondWorker) },
		"its identity ends": func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Must(w.Enrollment.Revoke(w.Ctx, lifecycletest.SecondWorker, "a test"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.CreatedWithMembers(t)
			prepare(w, c)
			if n := retires(w, c); n != 0 {
				t.Errorf("asked %d times for a server that is to stay", n)
			}
			w.Post(lifecycletest.ScaleInStart(lifecycletest.SecondWorker))
			if n := retires(w, c); n != 1 || !has(w, lifecycletest.SecondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lifecycletest.SecondWorker))
			}
			c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			w.Clock.Advance(lifecycletest.ShortestPause)
			if n := retires(w, c); n != 1 || has(w, lifecycletest.SecondWorker) || w.Node(lifecycletest.SecondWorker).State != api.NodeRevoked {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lifecycletest.SecondWorker))
			}
		})
	}
}

func TestARestartForgetsNoLeavingServer(t *testing.T) {
	for name, prepare := range map[string]func(*lifecycletest.World){
		"that was lost":        func(w *lifecycletest.World) { w.FallSilent(lifecycletest.SecondWorker) },
		"that falls silent":    func(*lifecycletest.World) {},
		"that has no identity": func(w *lifecycletest.World) { w.Must(w.Enrollment.Revoke(w.Ctx, lifecycletest.SecondWorker, "a test")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.CreatedWithMembers(t)
			w.Post(lifecycletest.ScaleInStart(lifecycletest.SecondWorker))
			prepare(w)
			c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			w.Restart()
			w.FallSilent(lifecycletest.SecondWorker)
			if n := retires(w, c); n != 1 || has(w, lifecycletest.SecondWorker) {
				t.Errorf("asked %d times; the server is %+v", n, w.Node(lifecycletest.SecondWorker))
			}
		})
	}
}

// An END decides about the servers that it is about, and it has not come.
func TestWhoIsGoneForAnotherReasonIsLeftToItsEnd(t *testing.T) {
	w, c := lifecycletest.CreatedWithMembers(t)
	w.Post(lifecycletest.ScaleInStart(lifecycletest.SecondWorker))
	without := lifecycletest.TopologyOf(slices.DeleteFunc(lifecycletest.MemberTopology().Servers, func(s api.Server) bool { return s.ID == lifecycletest.ThirdWorker })...)
	without.StackID = lifecycletest.StackOne
	w.Post(lifecycletest.Heal(api.PhaseStart, without, lifecycletest.WorkerServer))
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	w.FallSilent(lifecycletest.SecondWorker, lifecycletest.ThirdWorker)
	retires(w, c)
	if got := w.Node(lifecycletest.SecondWorker); got.State != api.NodeRevoked || has(w, lifecycletest.SecondWorker) {
		t.Errorf("the worker that leaves is %+v", got)
	}
	if got := w.Node(lifecycletest.ThirdWorker); got.State != api.NodeLost {
		t.Errorf("the worker that no SCALE_IN named is %+v, want it left to the END", got)
	}
}
