package kube_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The step that registers volumes, with a real API server: the server decides what a dry
// run returns, what is a conflict, and when a volume is gone.
func TestTheAgentRegistersAndWithdrawsVolumes(t *testing.T) {
	results.Begin(t, suite, "agent",
		"the agent registers volumes; a second pass changes nothing; while one volume is bound it deletes none, then all")
	kubetest.Require(t)
	m := newMaster(t)
	m.converge(api.ReasonRegistered)
	m.waitPhase("pv/pv1", "Available")
	before := m.kubectl("get", "pv", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
	if r := m.pass(); r.Changed {
		t.Errorf("a second pass did something: %+v", r.Results)
	}
	if after := m.kubectl("get", "pv", "-o", "jsonpath={.items[*].metadata.resourceVersion}"); after != before {
		t.Errorf("a second pass wrote: %s, then %s", before, after)
	}

	m.apply(claim)
	m.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/claim1", "--timeout=120s")
	bound := m.pass().BoundPersistentVolumes
	if len(bound) != 1 || bound[0].Server != storageServer {
		t.Errorf("the status says that %+v are bound, want one of %s", bound, storageServer)
	}
	m.doc.PersistentVolumes.State = api.PersistentVolumesAbsent
	message := m.converge(api.ReasonInUse)
	if !strings.Contains(message, "default/claim1") {
		t.Errorf("it does not name the claim: %s", message)
	}
	if names := m.kubectl("get", "pv", "-o", "name"); names != "persistentvolume/pv1\npersistentvolume/pv2" {
		t.Errorf("while one is bound there are %q", names)
	}

	m.kubectl("delete", "pvc", "claim1", "--timeout=60s")
	m.converge(api.ReasonAbsent)
	if names := m.kubectl("get", "pv", "-o", "name"); names != "" {
		t.Errorf("withdrawn, and there are %q", names)
	}
}
