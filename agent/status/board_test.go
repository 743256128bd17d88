package status_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) minute(n int) *clock {
	c.now = time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC)
	return c
}

func board() (*status.Board, *clock) {
	c := new(clock).minute(0)
	return status.NewBoard(api.Facts{Hostname: "storage"}, c.Now), c
}

func document(generation int64) *api.NodeConfig {
	return &api.NodeConfig{APIVersion: api.NodeConfigV1, Role: api.RoleStorage, Generation: generation, Epoch: 1}
}

// outcome is a report of one condition.
func outcome(generation int64, state api.ConditionStatus, reason api.Reason, at time.Time) converge.Report {
	r := converge.Report{Generation: generation, Results: []converge.Result{{Condition: "A"}}}
	ready, why := api.ConditionTrue, api.ReasonReady
	if state != api.ConditionTrue {
		r.Results[0].Err = converge.Wait(reason, "why")
		ready, why = api.ConditionFalse, api.ReasonNotReady
	}
	r.Conditions = []api.Condition{
		{Type: "A", Status: state, Reason: reason, Message: "why", ObservedGeneration: generation, LastTransitionTime: at},
		{Type: api.ConditionReady, Status: ready, Reason: why, ObservedGeneration: generation, LastTransitionTime: at},
	}
	return r
}

func TestNothingIsReportedBeforeThereIsSomethingToSay(t *testing.T) {
	b, _ := board()
	if _, ok := b.Report(); ok {
		t.Error("an empty board is reported")
	}
	b.Restore(document(1), "d1", []api.Condition{{Type: api.ConditionReady, Status: api.ConditionTrue}})
	b.Change(func(s *status.Status) { s.Controller.Connected = true })
	if _, ok := b.Report(); ok {
		t.Error("what is only remembered is reported as if it were so")
	}
	b.Observed(document(1), "d1")
	if _, ok := b.Report(); ok {
		t.Error("the same document is news")
	}
	b.Acting(converge.Event{Condition: api.ConditionVolumesMounted, Summary: "mount"})
	if s, ok := b.Report(); !ok || s.Condition(api.ConditionReady).Status != api.ConditionUnknown {
		t.Errorf("before the first pass has ended Ready is %+v (%v)", s.Condition(api.ConditionReady), ok)
	}
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, time.Time{}), "d1")
	if s, ok := b.Report(); !ok || s.AppliedDigest != "d1" || s.Epoch != 1 || s.Facts.Hostname != "storage" {
		t.Errorf("got %+v, %v", s, ok)
	}
}

// A message may quote a process's name, which any user of the machine chooses.
func TestTextsOfOthersDoNothing(t *testing.T) {
	b, c := board()
	r := outcome(1, api.ConditionFalse, api.ReasonPortInUse, c.minute(1).Now())
	r.Conditions[0].Message = "process 7 (\x1b]0;x\x07\u202e) listens"
	b.Converged(r, "d1")
	b.Acting(converge.Event{Summary: "run \x1b[2J"})
	b.Change(func(s *status.Status) { s.Node.AgentUpgrade = &api.AgentUpgrade{Message: "\u009b"} })
	s, _ := b.Report()
	if s.Conditions[0].Message != "process 7 (?]0;x??) listens" || s.Activity.Summary != "run ?[2J" || s.AgentUpgrade.Message != "?" {
		t.Errorf("%q, %q, %q", s.Conditions[0].Message, s.Activity.Summary, s.AgentUpgrade.Message)
	}
}

func TestNewDocumentIsNotReadyUntilItIsConverged(t *testing.T) {
	b, c := board()
	b.Observed(document(1), "d1")
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, c.now), "d1")
	c.minute(5)
	b.Observed(document(2), "d2")
	s, _ := b.Report()
	ready := s.Condition(api.ConditionReady)
	if ready.Status != api.ConditionFalse || ready.Reason != api.ReasonConverging || ready.ObservedGeneration != 2 || !ready.LastTransitionTime.Equal(c.now) {
		t.Errorf("Ready is %+v", ready)
	}
	if s.ObservedGeneration != 2 || s.AppliedGeneration != 1 || s.AppliedDigest != "d1" {
		t.Errorf("status %+v", s)
	}
	b.Converged(outcome(2, api.ConditionFalse, api.ReasonNoPermit, c.now), "d2")
	if s, _ := b.Report(); s.AppliedGeneration != 1 || s.LastFailedGeneration != 0 {
		t.Errorf("waiting: %+v", s)
	}
	failed := outcome(2, api.ConditionFalse, api.ReasonForeignData, c.now)
	failed.FailedCondition = "A"
	b.Converged(failed, "d2")
	if s, _ := b.Report(); s.LastFailedGeneration != 2 || s.LastFailedCondition != "A" {
		t.Errorf("failed: %+v", s)
	}
}

func TestInvalidDocumentIsSaidUntilAGoodOneComes(t *testing.T) {
	b, c := board()
	b.Observed(document(1), "d1")
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, c.now), "d1")
	b.Invalid(2, 0, "d2", "/cluster: is not known here")
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, c.now), "d1")
	s, _ := b.Report()
	ready := s.Condition(api.ConditionReady)
	if ready.Reason != api.ReasonInvalidDocument || s.ObservedDigest != "d2" || s.AppliedDigest != "d1" || s.LastFailedGeneration != 2 || s.Epoch != 1 {
		t.Errorf("status %+v", s)
	}
	if a := s.Condition("A"); a.Status != api.ConditionTrue {
		t.Errorf("A is %+v", a)
	}
	b.Observed(document(1), "d1") // taken back
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, c.now), "d1")
	if s, _ := b.Report(); s.Condition(api.ConditionReady).Status != api.ConditionTrue {
		t.Errorf("status %+v", s)
	}
}

func TestSubscribersAreToldOnceForManyChanges(t *testing.T) {
	b, _ := board()
	changed := b.Subscribe()
	for range 3 {
		b.Change(func(*status.Status) {})
	}
	<-changed
	select {
	case <-changed:
		t.Error("told twice")
	default:
	}
}

func TestSnapshotIsACopy(t *testing.T) {
	b, c := board()
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, c.now), "d1")
	b.Snapshot().Node.Conditions[0].Reason = "spoiled"
	b.Conditions()[0].Reason = "spoiled"
	if s := b.Snapshot(); s.Node.Conditions[0].Reason == "spoiled" {
		t.Error("the board was changed from outside")
	}
}

func TestFileComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "status.json")
	if _, err := status.Load(path); err == nil || !strings.Contains(err.Error(), "journalctl") {
		t.Errorf("no file: %v", err)
	}
	b, c := board()
	b.Observed(document(1), "d1")
	b.Converged(outcome(1, api.ConditionTrue, api.ReasonMounted, c.now), "d1")
	want := b.Snapshot()
	if err := status.Save(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := status.Load(path)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if !got.Running() {
		t.Error("this process does not run")
	}
	now := c.now
	got.StoppedAt = &now
	if got.Running() {
		t.Error("it runs although it stopped")
	}
}

func TestSummary(t *testing.T) {
	ready := func(s api.ConditionStatus, reason api.Reason) []api.Condition {
		return []api.Condition{
			{Type: "A", Status: s, Reason: reason, Message: "no disk"},
			{Type: api.ConditionReady, Status: s, Reason: api.ReasonNotReady, Message: "A is False"},
		}
	}
	for _, c := range []struct {
		s    status.Status
		want string
	}{
		{status.Status{}, "not enrolled, finding the controller"},
		{status.Status{Controller: status.Controller{LastError: "refused"}}, "not enrolled: refused"},
		{status.Status{Controller: status.Controller{CertificateSerial: "1"}}, "waiting for the first configuration"},
		{status.Status{Controller: status.Controller{CertificateSerial: "1", LastError: "gone"}}, "no configuration yet: gone"},
		{status.Status{Problem: "a copy"}, "stopped: a copy"},
		{status.Status{Node: api.NodeStatus{Activity: &api.Activity{Condition: "A", Summary: "format"}}}, "A: format"},
		{status.Status{Node: api.NodeStatus{Conditions: ready(api.ConditionFalse, api.ReasonWaitingForDevice)}}, "not ready: A: WaitingForDevice: no disk"},
		{status.Status{Node: api.NodeStatus{AppliedGeneration: 3, Conditions: ready(api.ConditionTrue, api.ReasonMounted)}}, "ready (generation 3)"},
		{status.Status{Controller: status.Controller{LastError: "gone"}, Node: api.NodeStatus{AppliedGeneration: 3, Conditions: ready(api.ConditionTrue, api.ReasonMounted)}},
			"ready (generation 3), without a controller: gone"},
	} {
		if got := c.s.Summary(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestWhatIsBoundIsReportedAsThePassSawIt(t *testing.T) {
	b := status.NewBoard(api.Facts{}, nil)
	ready := []api.Condition{{Type: api.ConditionReady, Status: api.ConditionTrue}}
	b.Converged(converge.Report{Conditions: ready, BoundPersistentVolumes: []api.BoundPersistentVolume{{Name: "pv1", Server: "10.10.0.5"}}}, "d")
	if s, _ := b.Report(); len(s.BoundPersistentVolumes) != 1 || s.BoundPersistentVolumes[0].Name != "pv1" {
		t.Errorf("the report has %v", s.BoundPersistentVolumes)
	}
	b.Converged(converge.Report{Conditions: ready, KubeletVersion: "1.35.4"}, "d")
	if s, _ := b.Report(); s.BoundPersistentVolumes != nil || s.Facts.KubeletVersion != "1.35.4" {
		t.Errorf("a pass that found none leaves %v; the facts are %+v", s.BoundPersistentVolumes, s.Facts)
	}
	b.Converged(converge.Report{Conditions: ready}, "d")
	if s, _ := b.Report(); s.Facts.KubeletVersion != "" {
		t.Errorf("a machine without a cluster has kubelet %s", s.Facts.KubeletVersion)
	}
}

// The status file is for people and for tools that collect what is wrong with a machine.
func TestTheClustersSecretsAreReportedAndInNoFile(t *testing.T) {
	b := status.NewBoard(api.Facts{}, nil)
	ready := []api.Condition{{Type: api.ConditionReady, Status: api.ConditionTrue}}
	b.Converged(converge.Report{Conditions: ready, ControlPlane: &api.ControlPlaneFacts{RenewalDue: true}, Cluster: &api.ClusterFacts{CACertificateHash: "sha256:00", Token: "opensesame"}}, "d")
	if s, _ := b.Report(); s.Cluster == nil || s.Cluster.Token != "opensesame" || s.Cluster.CACertificateHash != "sha256:00" {
		t.Errorf("the report has %+v", s.Cluster)
	}
	if s, _ := b.Report(); s.ControlPlane == nil || !s.ControlPlane.RenewalDue {
		t.Errorf("of the control plane the report has %+v", s.ControlPlane)
	}
	path := filepath.Join(t.TempDir(), "status.json")
	if err := status.Save(path, b.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || strings.Contains(string(content), "opensesame") || strings.Contains(string(content), "cluster") {
		t.Errorf("the status file is %s, %v", content, err)
	}
	b.Converged(converge.Report{Conditions: ready}, "d")
	if s, _ := b.Report(); s.Cluster != nil {
		t.Errorf("a pass that knows nothing leaves %+v", s.Cluster)
	}
}
