package node_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAHeartbeatIsNotWritten(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	same := w.Status(lifecycletest.StorageServer)
	for name, beat := range map[string]func(){
		"the same report": func() { w.Report(lifecycletest.StorageServer, same) },
		"another time of transition": func() {
			s := w.Status(lifecycletest.StorageServer)
			s.Conditions[0].LastTransitionTime = w.Clock.Now().Add(time.Hour)
			w.Report(lifecycletest.StorageServer, s)
		},
		"an activity": func() {
			s := w.Status(lifecycletest.StorageServer)
			s.Activity = &api.Activity{Condition: api.ConditionVolumesMounted, Summary: "mkfs.ext4", StartedAt: w.Clock.Now()}
			w.Report(lifecycletest.StorageServer, s)
		},
		"a poll": func() { w.Lifecycle.Nodes.Seen(lifecycletest.StorageServer) },
	} {
		w.Clock.Advance(time.Second)
		if w.Writes(beat) {
			t.Errorf("%s wrote to the store", name)
		}
		if n := w.Node(lifecycletest.StorageServer); n.LastSeenAt == nil || !n.LastSeenAt.Equal(w.Clock.Now()) {
			t.Errorf("%s: last seen %v, want now", name, n.LastSeenAt)
		}
	}
	sick := w.Status(lifecycletest.StorageServer)
	sick.Conditions[0].Status = api.ConditionFalse
	if !w.Writes(func() { w.Report(lifecycletest.StorageServer, sick) }) {
		t.Error("a transition was not written")
	}
	if n := w.Node(lifecycletest.StorageServer); n.Ready {
		t.Error("a node whose Ready is False is ready")
	}
}

func TestAnActivityIsShownWhileItLasts(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	changed, stop := w.Hub.Watch(notify.Nodes)
	defer stop()
	s := w.Status(lifecycletest.StorageServer)
	s.Activity = &api.Activity{Condition: api.ConditionVolumesMounted, Summary: "mkfs.ext4"}
	w.Report(lifecycletest.StorageServer, s)
	if got := w.Node(lifecycletest.StorageServer).Status.Activity; got == nil || got.Summary != "mkfs.ext4" {
		t.Errorf("activity %v", got)
	}
	if !lifecycletest.Woken(changed) {
		t.Error("who watches the nodes was not woken")
	}
	w.Report(lifecycletest.StorageServer, w.Status(lifecycletest.StorageServer))
	if got := w.Node(lifecycletest.StorageServer).Status.Activity; got != nil {
		t.Errorf("activity %v of an idle node", got)
	}
}

func TestAReportOfAnUnknownNodeIsRefused(t *testing.T) {
	w := lifecycletest.New(t)
	w.WantRefused(w.Lifecycle.Nodes.ReportStatus(w.Ctx, lifecycletest.StorageServer, api.NodeStatus{}), api.ProblemNotFound, lifecycletest.StorageServer)
	_, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
	w.WantRefused(err, api.ProblemNotFound)
	_, err = w.Lifecycle.Nodes.ListNodes(w.Ctx, lifecycletest.InstanceID, true)
	w.WantRefused(err, api.ProblemNotFound)
}
