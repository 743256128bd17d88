package kube_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Volumes of others reach the storage server by its floating address, by a name that this
// machine resolves, and by one that it does not.
func TestAVolumeCountsByEveryWayToItsServer(t *testing.T) {
	results.Begin(t, suite, "agent-ways-to-the-server",
		"a bound volume of others is in use by the server's floating address, by a name that resolves to it, and by a name that does not resolve")
	kubetest.Require(t)
	const floating, loopback = "203.0.113.5", "127.0.0.1"
	for written, says := range map[string]string{
		floating:      "PersistentVolume theirs is Bound, by claim default/claim1",
		"localhost":   "its server localhost is 127.0.0.1",
		"nfs.invalid": "its server's name nfs.invalid does not resolve on this master",
	} {
		t.Run(written, func(t *testing.T) {
			m := newMaster(t)
			m.doc.PersistentVolumes.Servers = []string{storageServer, loopback, floating}
			m.converge(api.ReasonRegistered)
			m.apply(manifest("theirs", written))
			m.apply(claimOf("theirs"))
			m.waitPhase("pv/theirs", "Bound")
			m.doc.PersistentVolumes.State = api.PersistentVolumesAbsent
			m.says(m.converge(api.ReasonInUse), "none is deleted", says)
			if names := m.names(); names != "pv1 pv2 theirs" {
				t.Errorf("while one is bound there are %q", names)
			}
			m.kubectl("delete", "pvc", "claim1", "--timeout=60s")
			m.converge(api.ReasonAbsent)
			if names := m.names(); names != "theirs" {
				t.Errorf("in the end there are %q", names)
			}
		})
	}
}
