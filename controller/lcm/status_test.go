package lcm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAHeartbeatIsNotWritten(t *testing.T) {
	w := instantiated(t)
	same := w.status(storageServer)
	for name, beat := range map[string]func(){
		"the same report": func() { w.report(storageServer, same) },
		"another time of transition": func() {
			s := w.status(storageServer)
			s.Conditions[0].LastTransitionTime = w.Clock.Now().Add(time.Hour)
			w.report(storageServer, s)
		},
		"an activity": func() {
			s := w.status(storageServer)
			s.Activity = &api.Activity{Condition: api.ConditionVolumesMounted, Summary: "mkfs.ext4", StartedAt: w.Clock.Now()}
			w.report(storageServer, s)
		},
		"a poll": func() { w.LCM.Nodes.Seen(storageServer) },
	} {
		w.Clock.Advance(time.Second)
		if w.writes(beat) {
			t.Errorf("%s wrote to the store", name)
		}
		if n := w.node(storageServer); n.LastSeenAt == nil || !n.LastSeenAt.Equal(w.Clock.Now()) {
			t.Errorf("%s: last seen %v, want now", name, n.LastSeenAt)
		}
	}
	sick := w.status(storageServer)
	sick.Conditions[0].Status = api.ConditionFalse
	if !w.writes(func() { w.report(storageServer, sick) }) {
		t.Error("a transition was not written")
	}
	if n := w.node(storageServer); n.Ready {
		t.Error("a node whose Ready is False is ready")
	}
}

func TestAnActivityIsShownWhileItLasts(t *testing.T) {
	w := instantiated(t)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	s := w.status(storageServer)
	s.Activity = &api.Activity{Condition: api.ConditionVolumesMounted, Summary: "mkfs.ext4"}
	w.report(storageServer, s)
	if got := w.node(storageServer).Status.Activity; got == nil || got.Summary != "mkfs.ext4" {
		t.Errorf("activity %v", got)
	}
	if !woken(changed) {
		t.Error("who watches the nodes was not woken")
	}
	w.report(storageServer, w.status(storageServer))
	if got := w.node(storageServer).Status.Activity; got != nil {
		t.Errorf("activity %v of an idle node", got)
	}
}

func TestANodeIsLostAfterThreeCadencesOfSilence(t *testing.T) {
	w := instantiated(t)
	w.LCM.Nodes.Seen(storageServer)
	w.Clock.Advance(90 * time.Second)
	w.LCM.Nodes.Seen(masterServer)
	if got := w.node(storageServer).State; got != api.NodeEnrolled {
		t.Errorf("after exactly three cadences the node is %s", got)
	}
	w.Clock.Advance(time.Second)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	w.must(w.LCM.Sweep(w.ctx))
	if !woken(changed) {
		t.Error("who watches the nodes was not told")
	}
	for id, want := range map[string]api.NodeState{storageServer: api.NodeLost, masterServer: api.NodeEnrolled} {
		if got := w.node(id).State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	w.LCM.Nodes.Seen(storageServer)
	if got := w.node(storageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that called is %s", got)
	}
}

func TestSilenceCountsFromTheStartOfTheController(t *testing.T) {
	w := instantiated(t)
	w.Clock.Advance(24 * time.Hour)
	w.restart()
	w.Clock.Advance(time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.node(storageServer).State; got != api.NodeEnrolled {
		t.Errorf("a minute after the restart the node is %s", got)
	}
	w.Clock.Advance(time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.node(storageServer).State; got != api.NodeLost {
		t.Errorf("two minutes after the restart the silent node is %s", got)
	}
}

// An enrollment is a call like any other.
func TestALostNodeThatEnrollsAgainIsLostNoMore(t *testing.T) {
	w := instantiated(t)
	w.Clock.Advance(2 * time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.node(storageServer).State; got != api.NodeLost {
		t.Fatalf("after two minutes the silent node is %s", got)
	}
	w.must(w.Enrollment.Reenroll(w.ctx, storageServer))
	w.must(w.enroll(storageServer))
	if got := w.node(storageServer).State; got != api.NodeEnrolled {
		t.Errorf("the node that enrolled again is %s", got)
	}
}

func TestAReportOfAnUnknownNodeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.refused(w.LCM.Nodes.ReportStatus(w.ctx, storageServer, api.NodeStatus{}), api.ProblemNotFound, storageServer)
	_, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
	w.refused(err, api.ProblemNotFound)
	_, err = w.LCM.Nodes.ListNodes(w.ctx, instanceID, true)
	w.refused(err, api.ProblemNotFound)
}

func TestRunFailsWhatIsDueAndStops(t *testing.T) {
	storetest.OnlyBbolt(t, storetest.Bubble)
	// All of it in the bubble: the store's worker may still be at the last change before.
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(spec(full()))
		w.upload(script, "#!/bin/sh\n")
		w.LCM.Operations.Runner.Now = time.Now
		r := request(api.Instantiate, api.PhaseEnd)
		r.DeadlineSeconds = 60
		op := w.post(r)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- w.LCM.Run(ctx) }()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := w.operation(op.ID).State; got != api.Processing {
			t.Errorf("before its deadline the operation is %s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.operation(op.ID).State; got != api.Failed {
			t.Errorf("after its deadline the operation is %s", got)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}
