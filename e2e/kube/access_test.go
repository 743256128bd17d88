package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// reader may list volumes; keeper has the rights that docs/in-the-cluster.md asks for.
const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [persistentvolumes], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keeper}
rules: [{apiGroups: [""], resources: [persistentvolumes], verbs: [get, list, create, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keeper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keeper}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: keeper}]
`

// The kubeconfig changes between passes: a user without rights, one who may list, one with
// all rights, another cluster's, an expired certificate and a new one.
func TestAReplacedKubeconfigIsUsed(t *testing.T) {
	results.Begin(t, suite, "agent-kubeconfig", "a refusal is reported with the missing right, and a replaced kubeconfig is used at the next pass")
	results.LongOnly(t)
	m := newMaster(t)
	m.apply(roles)
	m.login("no-role")
	m.says(m.converge(api.ReasonClusterNotInstalled), m.kubeconfig+" is not allowed to get, list, create, patch and delete", `User "no-role" cannot list resource "persistentvolumes"`)
	m.login("reader")
	m.says(m.converge(api.ReasonClusterNotInstalled), `User "reader" cannot patch resource "persistentvolumes"`)
	if names := m.names(); names != "" {
		t.Errorf("a reader made %q", names)
	}
	m.login("keeper")
	m.converge(api.ReasonRegistered)
	m.waitPhase("pv/pv1", "Available")

	other := cluster{kubetest.Open(t, kube.Options{}), t}
	alien, err := other.Kubeconfig(kube.Admin, kube.Masters)
	if err != nil {
		t.Fatal(err)
	}
	own, err := m.Kubeconfig("keeper")
	if err != nil {
		t.Fatal(err)
	}
	m.write(strings.Replace(string(own), m.URL, other.URL, 1))
	m.says(m.converge(api.ReasonClusterNotInstalled), "the server that answers is not the API server that "+m.kubeconfig+" trusts")
	m.write(strings.Replace(string(alien), other.URL, m.URL, 1))
	m.converge(api.ReasonClusterNotInstalled)
	expired, err := m.KubeconfigUntil(time.Now().Add(-time.Minute), "keeper")
	if err != nil {
		t.Fatal(err)
	}
	m.write(string(expired))
	m.says(m.converge(api.ReasonClusterNotInstalled), m.kubeconfig+", whose certificate expired on ", "Unauthorized")
	m.login("keeper")
	if r := m.pass(); !r.Converged() || r.Changed {
		t.Errorf("with a new certificate of the same user: %+v", r.Conditions)
	}
	m.doc.PersistentVolumes.State = api.PersistentVolumesAbsent
	m.converge(api.ReasonAbsent)
}

// The API server is killed as the agent begins to register the second of three volumes.
func TestTheAPIServerIsKilledDuringAPass(t *testing.T) {
	results.Begin(t, suite, "agent-api-server-killed", "the API server is killed while volumes are registered or withdrawn: the agent waits for it and completes the rest")
	results.LongOnly(t)
	m := newMaster(t)
	m.apply(manifest("theirs", storageServer))
	m.waitPhase("pv/theirs", "Available") // the controller manager runs already: without an API server it could not start
	m.manifests(manifest("pv1", storageServer), manifest("pv2", storageServer), manifest("pv3", storageServer))
	killedAt := func(action string) {
		m.during = func(at string) {
			if at == action {
				m.during = nil
				m.APIServer.Kill()
			}
		}
	}
	killedAt("register PersistentVolume pv2")
	m.says(m.converge(api.ReasonClusterNotInstalled), "the API server does not answer")
	m.start(m.APIServer)
	if names := m.names(); names != "pv1 theirs" {
		t.Errorf("before the kill were made %q", names)
	}
	m.converge(api.ReasonRegistered)
	m.doc.PersistentVolumes.State = api.PersistentVolumesAbsent
	killedAt("delete PersistentVolumes pv1, pv2, pv3")
	m.says(m.converge(api.ReasonClusterNotInstalled), "the API server does not answer")
	m.start(m.APIServer)
	if m.ControllerManager.PID() == 0 {
		t.Fatal("the controller manager, which releases volumes, has ended")
	}
	m.converge(api.ReasonAbsent)
	if names := m.names(); names != "theirs" {
		t.Errorf("in the end there are %q", names)
	}
}
