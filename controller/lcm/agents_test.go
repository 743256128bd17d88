package lcm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// without is an agent that understands all but these sections.
func without(version string, sections ...string) api.Agent {
	a := api.ThisAgent(version)
	a.Sections = slices.DeleteFunc(a.Sections, func(s string) bool { return slices.Contains(sections, s) })
	return a
}

// polled is the first check of a poll, and how often it wrote.
func (w *world) polled(nodeID string, agent api.Agent) (digest string, writes bool) {
	w.Helper()
	writes = w.writes(func() {
		now, err := w.LCM.Nodes.Polled(w.ctx, nodeID, agent)
		w.must(err)
		digest = now.Digest
	})
	return digest, writes
}

func TestWhatAnAgentIsIsWrittenWhenItChanges(t *testing.T) {
	w := instantiated(t)
	for _, c := range []struct {
		what   string
		agent  api.Agent
		writes bool
	}{
		{"the first poll", api.ThisAgent("v1"), false},
		{"the next", api.ThisAgent("v1"), false},
		{"another version", api.ThisAgent("v2"), false},
		{"another set", without("v2", api.SectionPersistentVolumes), true},
		{"the next of that", without("v2", api.SectionPersistentVolumes), false},
		{"another version that understands as little", without("v3", api.SectionPersistentVolumes), true},
		{"a set of before the header", api.FirstAgent(), true},
		{"the next of that", api.FirstAgent(), false},
		{"a set of after the first release", api.ThisAgent("v4"), true},
	} {
		before := w.document(workerServer)
		changed, stop := w.Hub.Watch(notify.Nodes)
		digest, writes := w.polled(workerServer, c.agent)
		if told := woken(changed); writes != c.writes || told != c.writes {
			t.Errorf("%s wrote: %v, and woke who watches the nodes: %v", c.what, writes, told)
		}
		stop()
		if after := w.document(workerServer); after.Generation != before.Generation || digest != after.Digest() {
			t.Errorf("%s: generation %d and digest %s, want %d and %s", c.what, after.Generation, digest, before.Generation, after.Digest())
		}
	}
}

// What changes no document is on record with the next report, so that a controller that
// knows more plans by it from its start.
func TestWhatAnAgentIsIsWrittenWithItsNextReport(t *testing.T) {
	w := instantiated(t)
	agent := func() (agent *api.Agent) {
		w.must(w.Store.View(func(t *store.Tx) error {
			n, _, err := t.Nodes().Get(workerServer)
			agent = n.Agent
			return err
		}))
		return agent
	}
	w.polled(workerServer, api.ThisAgent("v1"))
	w.report(workerServer, w.status(workerServer))
	if agent() != nil {
		t.Fatalf("a report without news wrote %+v", agent())
	}
	for _, said := range []api.Agent{api.ThisAgent("v1"), api.ThisAgent("v2")} {
		w.polled(workerServer, said)
		s := w.status(workerServer)
		s.Facts.AgentVersion = said.Version
		w.report(workerServer, s)
		if got := agent(); got == nil || !got.Equal(said) {
			t.Errorf("after the report of %s the record says %+v", said.Version, got)
		}
	}
	w.polled(workerServer, api.ThisAgent("v3"))
	w.polled(workerServer, api.ThisAgent("v2")) // it was rolled back before it reported
	s := w.status(workerServer)
	s.Facts.AgentVersion, s.Facts.KernelVersion = "v2", "6.1"
	w.report(workerServer, s)
	if got := agent(); got.Version != "v2" {
		t.Errorf("the record says %+v of an agent that was rolled back", got)
	}
}

func TestASectionIsWithheldUntilTheAgentUnderstandsIt(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(masterServer, workerServer)
	if w.document(storageServer).Storage == nil {
		t.Fatal("something is withheld from an agent that has not polled")
	}
	digest, _ := w.polled(storageServer, without("v0.1", api.SectionStorage))
	if now := w.document(storageServer); now.Storage != nil || now.Proxy == nil || digest != now.Digest() {
		t.Fatalf("the poll of an old agent is answered with %+v", now)
	}
	w.converge(storageServer)
	target := w.operation(op.ID).Targets[slices.IndexFunc(w.operation(op.ID).Targets, func(t api.OperationTarget) bool { return t.NodeID == storageServer })]
	if got := w.operation(op.ID); got.State != api.Processing || target.Ready || target.Reason != api.ReasonAgentTooOld || len(got.Withheld) != 1 {
		t.Errorf("INSTANTIATE END is %+v, want PROCESSING until the agent is upgraded", got)
	}
	if !w.node(storageServer).Ready {
		t.Error("the old agent has converged what it was given, and its node is not ready")
	}
	w.polled(storageServer, api.ThisAgent("v0.2"))
	if w.document(storageServer).Storage == nil || len(w.node(storageServer).Withheld) > 0 {
		t.Errorf("the upgraded agent is given %+v", w.document(storageServer))
	}
	w.report(storageServer, w.status(storageServer))
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

// A section that was there and is not understood any more is missing, which means hands
// off: nothing on the machine is removed.
func TestAnAgentThatIsDowngradedLosesNothing(t *testing.T) {
	w := instantiated(t)
	w.polled(storageServer, api.ThisAgent("v2"))
	w.polled(storageServer, without("v1", api.SectionStorage))
	if now := w.document(storageServer); now.Storage != nil || slices.Contains(now.Sections(), api.SectionStorage) {
		t.Errorf("the older agent is given %+v", now.Storage)
	}
	w.polled(storageServer, api.ThisAgent("v2"))
	if now := w.document(storageServer); now.Storage == nil || len(now.Storage.Volumes) != 1 || now.Generation != 3 {
		t.Errorf("the upgraded agent is given %+v", now)
	}
}

// An END that asks for more of a server whose agent is too old for it is not done without
// it, and one that asks for no more of the server does not wait for it.
func TestAnEndWaitsForWhatItAsksOfAnOldAgent(t *testing.T) {
	w := instantiated(t)
	w.polled(storageServer, without("v1", api.SectionStorage))
	w.converge(storageServer)
	added := uuid(3, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(added, "worker"))
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	if targets := w.operation(op.ID).Targets; len(targets) != 1 || targets[0].NodeID != added {
		t.Fatalf("SCALE_OUT END waits for %+v, want the new worker", targets)
	}
	w.converge(added)
	if got := w.operation(op.ID); got.State != api.Completed || !warns(got, storageServer, api.ReasonAgentTooOld) {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED with a warning of the storage server", got)
	}
	grown.Volumes[0].SizeBytes = 2 << 30
	op = w.post(heal(api.PhaseEnd, grown, workerServer))
	if got := w.operation(op.ID); got.State != api.Processing || !slices.ContainsFunc(got.Targets, func(t api.OperationTarget) bool {
		return t.NodeID == storageServer && t.Reason == api.ReasonAgentTooOld
	}) {
		t.Errorf("HEAL END is %+v, want it to wait for the storage server", got)
	}
}

func warns(op api.Operation, parts ...string) bool {
	return slices.ContainsFunc(op.Warnings, func(f api.Fault) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(f.Message, part) })
	})
}

// A newer agent reports a condition that this controller does not know, and applies its document.
func TestAConditionThatNoSectionCallsForIsNoPartOfReady(t *testing.T) {
	w := instantiated(t)
	s := w.status(workerServer)
	s.Conditions = append(s.Conditions, api.Condition{Type: "TimeSynced", Status: api.ConditionFalse, Reason: "NoServerAnswers",
		ObservedGeneration: s.ObservedGeneration, LastTransitionTime: w.Clock.Now()})
	w.report(workerServer, s)
	if n := w.node(workerServer); !n.Ready || n.Status.Condition("TimeSynced") == nil {
		t.Errorf("the node is %+v, its status %+v; want Ready, and what it said kept", n, n.Status)
	}
}
