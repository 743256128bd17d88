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

func TestAHeartbeatIsNotWritten(t *testing.T) {
	w := lcmtest.Instantiated(t)
	same := w.Status(lcmtest.StorageServer)
	for name, beat := range map[string]func(){
		"the same report": func() { w.Report(lcmtest.StorageServer, same) },
		"another time of transition": func() {
			s := w.Status(lcmtest.StorageServer)
			s.Conditions[0].LastTransitionTime = w.Clock.Now().Add(time.Hour)
			w.Report(lcmtest.StorageServer, s)
		},
		"an activity": func() {
			s := w.Status(lcmtest.StorageServer)
			s.Activity = &api.Activity{Condition: api.ConditionVolumesMounted, Summary: "mkfs.ext4", StartedAt: w.Clock.Now()}
			w.Report(lcmtest.StorageServer, s)
		},
		"a poll": func() { w.LCM.Nodes.Seen(lcmtest.StorageServer) },
	} {
		w.Clock.Advance(time.Second)
		if w.Writes(beat) {
			t.Errorf("%s wrote to the store", name)
		}
		if n := w.Node(lcmtest.StorageServer); n.LastSeenAt == nil || !n.LastSeenAt.Equal(w.Clock.Now()) {
			t.Errorf("%s: last seen %v, want now", name, n.LastSeenAt)
		}
	}
	sick := w.Status(lcmtest.StorageServer)
	sick.Conditions[0].Status = api.ConditionFalse
	if !w.Writes(func() { w.Report(lcmtest.StorageServer, sick) }) {
		t.Error("a transition was not written")
	}
	if n := w.Node(lcmtest.StorageServer); n.Ready {
		t.Error("a node whose Ready is False is ready")
	}
}

func TestAnActivityIsShownWhileItLasts(t *testing.T) {
	w := lcmtest.Instantiated(t)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	s := w.Status(lcmtest.StorageServer)
	s.Activity = &api.Activity{Condition: api.ConditionVolumesMounted, Summary: "mkfs.ext4"}
	w.Report(lcmtest.StorageServer, s)
	if got := w.Node(lcmtest.StorageServer).Status.Activity; got == nil || got.Summary != "mkfs.ext4" {
		t.Errorf("activity %v", got)
	}
	if !lcmtest.Woken(changed) {
		t.Error("who watches the nodes was not woken")
	}
	w.Report(lcmtest.StorageServer, w.Status(lcmtest.StorageServer))
	if got := w.Node(lcmtest.StorageServer).Status.Activity; got != nil {
		t.Errorf("activity %v of an idle node", got)
	}
}

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

func TestAReportOfAnUnknownNodeIsRefused(t *testing.T) {
	w := lcmtest.New(t)
	w.WantRefused(w.LCM.Nodes.ReportStatus(w.Ctx, lcmtest.StorageServer, api.NodeStatus{}), api.ProblemNotFound, lcmtest.StorageServer)
	_, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, lcmtest.StorageServer)
	w.WantRefused(err, api.ProblemNotFound)
	_, err = w.LCM.Nodes.ListNodes(w.Ctx, lcmtest.InstanceID, true)
	w.WantRefused(err, api.ProblemNotFound)
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
