package kube_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The manifests of both volumes leave the parameters while a claim has one of them.
func TestVolumesWithoutAManifestAreDeleted(t *testing.T) {
	results.Begin(t, suite, "agent-strays",
		"a volume without a manifest is deleted, a bound one when its claim is deleted, one of others never")
	kubetest.Require(t)
	m := newMaster(t)
	m.converge(api.ReasonRegistered)
	m.waitPhase("pv/pv1", "Available")
	m.waitPhase("pv/pv2", "Available")
	m.apply(manifest("theirs", storageServer))
	m.apply(claimOf("pv2"))
	m.waitPhase("pv/pv2", "Bound")

	m.manifests()
	m.says(m.converge(api.ReasonInUse), "PersistentVolume pv2 is no longer among the manifests and is bound to default/claim1; the agent deletes it when the claim is gone")
	if names := m.names(); names != "pv2 theirs" {
		t.Errorf("while one is bound there are %q", names)
	}
	if deleted := m.kubectl("get", "pv", "pv2", "-o", "jsonpath={.metadata.deletionTimestamp}"); deleted != "" {
		t.Errorf("the bound one was deleted at %s", deleted)
	}
	if r := m.pass(); r.Changed {
		t.Errorf("it did something while it waits for the claim: %+v", r.Results)
	}

	m.kubectl("delete", "pvc", "claim1", "--timeout=60s")
	m.converge(api.ReasonRegistered)
	if names := m.names(); names != "theirs" {
		t.Errorf("in the end there are %q", names)
	}
}

// Another client registers the same manifest between the agent's plan and its action. For
// the API server equal values are no conflict.
func TestAVolumeThatAnotherMadeIsKept(t *testing.T) {
	results.Begin(t, suite, "agent-same-manifest", "a volume that another client made from the same manifest just before is left alone")
	kubetest.Require(t)
	m := newMaster(t)
	m.during = func(action string) {
		if action == "register PersistentVolume pv1" {
			m.apply(manifest("pv1", storageServer))
		}
	}
	m.says(m.converge(api.ReasonForeignPersistentVolume), "pv1")
	if labels := m.kubectl("get", "pv", "pv1", "-o", "jsonpath={.metadata.labels}"); labels != "" {
		t.Errorf("it is marked by %s", labels)
	}
	if path := m.kubectl("get", "pv", "pv1", "-o", "jsonpath={.spec.nfs.path}"); path != "/volume/nfs/pv1" {
		t.Errorf("its path is %q", path)
	}
	m.doc.PersistentVolumes.State = api.PersistentVolumesAbsent
	m.says(m.converge(api.ReasonAbsent), "pv1 are not nodehitch's and stay")
	if names := m.names(); names != "pv1" {
		t.Errorf("there are %q", names)
	}
}

// A released volume has its old source for ever, and only the owner may delete it.
func TestAReleasedVolumeIsRegisteredAgainWhenDeleted(t *testing.T) {
	results.Begin(t, suite, "agent-released", "a released volume with another source is reported and kept, and registered again when it was deleted")
	results.LongOnly(t)
	m := newMaster(t)
	m.converge(api.ReasonRegistered)
	m.apply(claimOf("pv1"))
	m.waitPhase("pv/pv1", "Bound")
	m.kubectl("delete", "pvc", "claim1", "--timeout=60s")
	m.waitPhase("pv/pv1", "Released")
	m.says(m.converge(api.ReasonRegistered), "pv1 Released")

	const moved = "fd00:10::5"
	m.doc.PersistentVolumes.Servers = []string{storageServer, moved}
	m.manifests(manifest("pv1", moved), manifest("pv2", storageServer))
	m.says(m.converge(api.ReasonSourceImmutable), "claim default/claim1 is gone", "10.10.0.5:/volume/nfs/pv1",
		"expected [fd00:10::5]:/volume/nfs/pv1", "kubectl delete pv pv1")
	m.kubectl("delete", "pv", "pv1", "--timeout=60s")
	m.converge(api.ReasonRegistered)
	if server := m.kubectl("get", "pv", "pv1", "-o", "jsonpath={.spec.nfs.server}"); server != moved {
		t.Errorf("made anew it points to %q", server)
	}
	m.doc.PersistentVolumes.Servers = []string{"FD00:10:0::5", storageServer}
	m.manifests(manifest("pv1", "FD00:10:0::5"), manifest("pv2", storageServer))
	if r := m.pass(); r.Changed || !r.Converged() {
		t.Errorf("the same address in other letters: %+v", r.Conditions)
	}
	m.manifests(manifest("pv2", storageServer))
	m.converge(api.ReasonRegistered)
	if names := m.names(); names != "pv2" {
		t.Errorf("in the end there are %q", names)
	}
}
