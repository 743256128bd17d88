package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const suite = "kube"

const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv1}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  nfs: {server: 10.10.0.5, path: /volume/nfs/pv1}
`

const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim1, namespace: default}
spec: {accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`

// claimOf is the claim to this volume.
func claimOf(volume string) string {
	return strings.Replace(claim, "{accessModes", "{volumeName: "+volume+", accessModes", 1)
}

// cluster runs kubectl with a cluster, and fails the test if that fails.
type cluster struct {
	*kube.Cluster
	t *testing.T
}

func (c cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.Kubectl(c.t.Context(), args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c cluster) apply(manifests string) {
	c.t.Helper()
	if err := c.Apply(c.t.Context(), manifests); err != nil {
		c.t.Fatal(err)
	}
}

func (c cluster) waitPhase(object, phase string) {
	c.t.Helper()
	c.kubectl("wait", "--for=jsonpath={.status.phase}="+phase, object, "--timeout=120s")
}

func (c cluster) start(programs ...*kube.Program) {
	c.t.Helper()
	for _, p := range programs {
		if err := p.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// The life of a volume, as far as the control plane controls it.
func TestVolumesAreBoundAndProtected(t *testing.T) {
	record := results.Begin(t, suite, "bound-and-protected",
		"a claim binds a PersistentVolume; its deletion waits for the claim's deletion, also if API server and etcd are killed meanwhile")
	kubetest.Require(t)
	began := time.Now()
	figure := func(name string) { record.Figure(name, "%.1f s", time.Since(began).Seconds()) }
	c := cluster{kubetest.Open(t, kube.Options{}), t}
	figure("ready after")
	c.apply(volume)
	c.waitPhase("pv/pv1", "Available")
	figure("available after")
	c.apply(claim)
	c.waitPhase("pv/pv1", "Bound")
	figure("bound after")
	for _, p := range c.Programs() {
		record.Figure(p.Name, "%d MB", kubetest.Resident(t, p)>>20)
	}

	if out, err := c.Kubectl(t.Context(), "delete", "pv", "pv1", "--timeout=2s"); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Fatalf("deleting a bound volume: %s, %v", out, err)
	}
	state := func() string {
		return c.kubectl("get", "pv", "pv1", "-o", "jsonpath={.metadata.uid} {.status.phase} {.metadata.deletionTimestamp}")
	}
	before := state()
	if got := strings.Fields(before); len(got) != 3 || got[1] != "Bound" {
		t.Fatalf("a bound volume that was deleted has uid, phase and deletion time %q", before)
	}
	c.APIServer.Kill()
	c.Etcd.Kill()
	if out, err := c.Kubectl(t.Context(), "get", "pv"); err == nil {
		t.Fatalf("an API server that was killed answers: %s", out)
	}
	began = time.Now()
	c.start(c.Etcd, c.APIServer)
	figure("ready again after")
	if after := state(); after != before {
		t.Errorf("the volume is %q after the restart, was %q", after, before)
	}
	c.kubectl("delete", "pvc", "claim1", "--timeout=120s")
	c.kubectl("wait", "--for=delete", "pv/pv1", "--timeout=120s")
	if c.ControllerManager.PID() == 0 {
		t.Error("the controller manager has ended")
	}
}

// A certificate of the cluster alone gives no rights.
func TestUsersWithoutARoleAreRefused(t *testing.T) {
	record := results.Begin(t, suite, "without-a-role", "a user without a role may neither read nor delete a PersistentVolume")
	results.LongOnly(t)
	c := cluster{kubetest.Open(t, kube.Options{}), t}
	noRole, err := c.Kubeconfig("no-role")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(volume)
	file := filepath.Join(t.TempDir(), "no-role.conf")
	if err := os.WriteFile(file, noRole, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for verb, args := range map[string][]string{"list": {"get", "pv"}, "get": {"get", "pv", "pv1"}, "delete": {"delete", "pv", "pv1"}} {
		out, err := c.Kubectl(t.Context(), append([]string{"--kubeconfig", file}, args...)...)
		switch {
		case err == nil:
			asked++
			record.Unauthorised(1)
			t.Errorf("%v by a user without a role prints %q", args, out)
		case strings.Contains(err.Error(), `User "no-role" cannot `+verb+` resource "persistentvolumes"`):
			asked++
			record.Unauthorised(0)
		default: // without an answer nothing was refused
			t.Errorf("%v: %v, want that the user is refused", args, err)
		}
	}
	record.Figure("requests that had to be refused", "%d", asked)
}

// Two runs on one machine have a store, an address and an authority each.
func TestClustersAreSeparate(t *testing.T) {
	results.Begin(t, suite, "side-by-side", "two clusters on one machine have nothing in common")
	results.LongOnly(t)
	one, other := cluster{kubetest.Open(t, kube.Options{}), t}, cluster{kubetest.Open(t, kube.Options{}), t}
	one.apply(volume)
	if got := one.kubectl("get", "pv", "-o", "name"); got != "persistentvolume/pv1" {
		t.Errorf("the one has %q", got)
	}
	if got := other.kubectl("get", "pv", "-o", "name"); got != "" {
		t.Errorf("the other has %q", got)
	}
	if out, err := one.Kubectl(t.Context(), "--server", other.URL, "get", "pv"); err == nil {
		t.Errorf("the other trusts the one's users: %s", out)
	}
}

// What an agent on a master does: it finds the API server by the file that kubeadm
// leaves there.
func TestLabMachinesReachTheAPIServer(t *testing.T) {
	results.Begin(t, suite, "in-a-lab", "a machine of the lab reaches the API server by /etc/kubernetes/admin.conf")
	results.LongOnly(t)
	kubetest.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	c := kubetest.Open(t, kube.Options{Lab: l})
	master, err := l.Nspawn(t.Context(), lab.Spec{Name: "master"})
	if err != nil {
		t.Fatal(err)
	}
	if err := master.WaitCloudInit(t.Context()); err != nil { // it brings the network
		t.Fatal(err)
	}
	admin, err := c.Kubeconfig(kube.Admin, kube.Masters)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := os.ReadFile(c.Binary("kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := master.Push(t.Context(), "/etc/kubernetes/admin.conf", 0o600, admin); err != nil {
		t.Fatal(err)
	}
	if err := master.Push(t.Context(), "/usr/local/bin/kubectl", 0o755, kubectl); err != nil {
		t.Fatal(err)
	}
	out, err := master.Exec(t.Context(), "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "get", "--raw", "/readyz")
	if err != nil || string(out) != "ok" {
		t.Errorf("on the master /readyz says %q, %v", out, err)
	}
}
