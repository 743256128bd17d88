package node_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestWhatAnAgentIsIsWrittenWhenItChanges(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	for _, c := range []struct {
		what   string
		agent  api.Agent
		writes bool
	}{
		{"the first poll", api.ThisAgent("v1"), false},
		{"the next", api.ThisAgent("v1"), false},
		{"another version", api.ThisAgent("v2"), false},
		{"another set", lifecycletest.AgentWithout("v2", api.SectionPersistentVolumes), true},
		{"the next of that", lifecycletest.AgentWithout("v2", api.SectionPersistentVolumes), false},
		{"another version that understands as little", lifecycletest.AgentWithout("v3", api.SectionPersistentVolumes), true},
		{"a smaller set", lifecycletest.AgentWithout("v3", api.SectionPersistentVolumes, api.SectionKubernetes), true},
		{"the next of that", lifecycletest.AgentWithout("v3", api.SectionPersistentVolumes, api.SectionKubernetes), false},
		{"all sections", api.ThisAgent("v4"), true},
	} {
		before := w.Document(lifecycletest.WorkerServer)
		changed, stop := w.Hub.Watch(notify.Nodes)
		digest, writes := w.Poll(lifecycletest.WorkerServer, c.agent)
		if told := lifecycletest.Woken(changed); writes != c.writes || told != c.writes {
			t.Errorf("%s wrote: %v, and woke who watches the nodes: %v", c.what, writes, told)
		}
		stop()
		if after := w.Document(lifecycletest.WorkerServer); after.Generation != before.Generation || digest != after.Digest() {
			t.Errorf("%s: generation %d and digest %s, want %d and %s", c.what, after.Generation, digest, before.Generation, after.Digest())
		}
	}
}

// What changes no document is on record with the next report, so that a controller that
// knows more plans by it from its start.
func TestWhatAnAgentIsIsWrittenWithItsNextReport(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	agent := func() (agent *api.Agent) {
		w.Must(w.Store.View(func(t *store.Tx) error {
			n, _, err := t.Nodes().Get(lifecycletest.WorkerServer)
			agent = n.Agent
			return err
		}))
		return agent
	}
	w.Poll(lifecycletest.WorkerServer, api.ThisAgent("v1"))
	w.Report(lifecycletest.WorkerServer, w.Status(lifecycletest.WorkerServer))
	if agent() != nil {
		t.Fatalf("a report without news wrote %+v", agent())
	}
	for _, said := range []api.Agent{api.ThisAgent("v1"), api.ThisAgent("v2")} {
		w.Poll(lifecycletest.WorkerServer, said)
		s := w.Status(lifecycletest.WorkerServer)
		s.Facts.AgentVersion = said.Version
		w.Report(lifecycletest.WorkerServer, s)
		if got := agent(); got == nil || !got.Equal(said) {
			t.Errorf("after the report of %s the record says %+v", said.Version, got)
		}
	}
	w.Poll(lifecycletest.WorkerServer, api.ThisAgent("v3"))
	w.Poll(lifecycletest.WorkerServer, api.ThisAgent("v2")) // it was rolled back before it reported
	s := w.Status(lifecycletest.WorkerServer)
	s.Facts.AgentVersion, s.Facts.KernelVersion = "v2", "6.1"
	w.Report(lifecycletest.WorkerServer, s)
	if got := agent(); got.Version != "v2" {
		t.Errorf("the record says %+v of an agent that was rolled back", got)
	}
}
