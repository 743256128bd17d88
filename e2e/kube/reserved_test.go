package kube_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A manifest's spec.claimRef reserves a volume: no other claim gets its data. Once a claim
// has the volume, the agent changes nothing of that, whatever the manifest says.
func TestAVolumeIsReservedForTheClaimOfItsManifest(t *testing.T) {
	results.Begin(t, suite, "agent-reserved", "a volume that its manifest reserves is bound to that claim alone; a binding stays when the manifest changes")
	kubetest.Require(t)
	m := newMaster(t)
	reserved := func(name, claim, server string) string {
		return strings.Replace(manifest(name, server), `"spec": {`, `"spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "`+claim+
			`", "uid": "6d1f0f3e-1b1c-4a5e-8c39-0c1ae8c8a001", "resourceVersion": "1"}, `, 1)
	}
	m.manifests(reserved("pv1", "claim1", "10.10.0.6"))
	m.doc.PersistentVolumes.Servers = []string{storageServer, "10.10.0.6"}
	m.converge(api.ReasonRegistered)
	m.waitPhase("pv/pv1", "Available")

	m.manifests(reserved("pv1", "claim1", storageServer))
	m.converge(api.ReasonRegistered)
	m.waitPhase("pv/pv1", "Available")
	if server := m.kubectl("get", "pv", "pv1", "-o", "jsonpath={.spec.nfs.server}"); server != storageServer {
		t.Errorf("the reserved volume was not recreated: it points to %s", server)
	}

	m.apply(strings.Replace(claimOf("pv1"), "claim1", "other", 1))
	m.apply(strings.Replace(claim, "claim1", "any", 1))
	m.apply(claimOf("pv1"))
	m.waitPhase("pv/pv1", "Bound")
	bound := func() string {
		return m.kubectl("get", "pv", "pv1", "-o", "jsonpath={.status.phase} {.spec.claimRef.namespace}/{.spec.claimRef.name} {.spec.claimRef.uid}")
	}
	before := bound()
	if !strings.HasPrefix(before, "Bound default/claim1 ") {
		t.Fatalf("the volume is %s", before)
	}
	m.converge(api.ReasonRegistered)
	if r := m.pass(); r.Changed {
		t.Errorf("a second pass did something: %+v", r.Results)
	}
	for name, c := range map[string]struct{ manifest, says string }{
		"without a claim": {manifest("pv1", storageServer), "pv1 Bound"},
		"another's":       {reserved("pv1", "other", storageServer), "the manifest reserves it for claim default/other, and it is or was bound to default/claim1"},
	} {
		m.manifests(c.manifest)
		m.pass()
		m.says(m.converge(api.ReasonRegistered), c.says)
		if after := bound(); after != before {
			t.Errorf("with a manifest %s the volume is %s, was %s", name, after, before)
		}
		if r := m.pass(); r.Changed {
			t.Errorf("with a manifest %s each pass does something: %+v", name, r.Results)
		}
	}

	m.manifests(reserved("pv2", "nobody", storageServer))
	m.kubectl("delete", "pvc", "claim1", "--timeout=60s")
	m.converge(api.ReasonRegistered)
	m.manifests()
	m.converge(api.ReasonRegistered)
	if names := m.names(); names != "" {
		t.Errorf("without manifests there are %q: a reservation that a manifest made is no use", names)
	}
}
