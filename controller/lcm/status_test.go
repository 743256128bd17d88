package lcm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestANodeIsLostAfterThreeCadencesOfSilence(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.LCM.Nodes.Seen(lcmtest.StorageServer)
	w.Clock.Advance(90 * time.Second)
	w.LCM.Nodes.Seen(lcmtest.MasterServer)
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("after exactly three cadences the node is %s", got)
	}
	w.Clock.Advance(time.Second)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	w.Must(w.LCM.Sweep(w.Ctx))
	if !lcmtest.Woken(changed) {
		t.Error("who watches the nodes was not told")
	}
	for id, want := range map[string]api.NodeState{lcmtest.StorageServer: api.NodeLost, lcmtest.MasterServer: api.NodeEnrolled} {
		if got := w.Node(id).State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	w.LCM.Nodes.Seen(lcmtest.StorageServer)
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that called is %s", got)
	}
}

func TestSilenceCountsFromTheStartOfTheController(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Clock.Advance(24 * time.Hour)
	w.Restart()
	w.Clock.Advance(time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("a minute after the restart the node is %s", got)
	}
	w.Clock.Advance(time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeLost {
		t.Errorf("two minutes after the restart the silent node is %s", got)
	}
}

// An enrollment is a call like any other.
func TestALostNodeThatEnrollsAgainIsLostNoMore(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Clock.Advance(2 * time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeLost {
		t.Fatalf("after two minutes the silent node is %s", got)
	}
	w.Must(w.Enrollment.Reenroll(w.Ctx, lcmtest.StorageServer))
	w.Must(w.Enroll(lcmtest.StorageServer))
	if got := w.Node(lcmtest.StorageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that enrolled again is %s", got)
	}
}

func TestRunFailsWhatIsDueAndStops(t *testing.T) {
	storetest.OnlyBbolt(t, storetest.Bubble)
	// All of it in the bubble: the store's worker may still be at the last change before.
	synctest.Test(t, func(t *testing.T) {
		w := lcmtest.New(t)
		w.Put(lcmtest.Spec(lcmtest.FullTopology()))
		w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
		w.LCM.Operations.Runner.Now = time.Now
		r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
		r.DeadlineSeconds = 60
		op := w.Post(r)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- w.LCM.Run(ctx) }()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := w.Operation(op.ID).State; got != api.Processing {
			t.Errorf("before its deadline the operation is %s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.Operation(op.ID).State; got != api.Failed {
			t.Errorf("after its deadline the operation is %s", got)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}
