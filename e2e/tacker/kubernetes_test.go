package tacker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// kubernetes is a real Kubernetes API. The masters of a VNF that has one are real agents,
// which register PersistentVolumes there.
type kubernetes struct {
	*kube.Cluster
	w      *tackerMachine
	config string // the kubeconfig of its masters
}

func (w *tackerMachine) newKubernetes() *kubernetes {
	w.t.Helper()
	k := &kubernetes{Cluster: kubetest.Open(w.t, kube.Options{}), w: w, config: filepath.Join(w.t.TempDir(), "admin.conf")}
	admin, err := k.Kubeconfig(kube.Admin, kube.Masters)
	if err == nil {
		err = os.WriteFile(k.config, admin, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// newMaster boots a master: its agent with what Heat has given its user_data.
func (k *kubernetes) newMaster(v *vnf, id string) *node {
	config := v.AgentConfig(v.id)
	config.JoinToken, config.Kubeconfig = v.join, k.config
	agent := loopback.StartAgent(v.t, loopback.AgentOptions{ServerID: id, Config: config})
	return &node{stop: func() { _ = agent.End(syscall.SIGKILL) }}
}

// owner is the master that registers the VNF's PersistentVolumes.
func (v *vnf) owner() (owner *server) {
	v.t.Helper()
	loopback.Until(v.t, "a master has registered", func() bool {
		for _, s := range v.masters {
			if n := v.Node(s.id); n.Status != nil && n.Status.Condition(api.ConditionPersistentVolumesRegistered) != nil {
				owner = s
			}
		}
		return owner != nil
	})
	return owner
}

func (k *kubernetes) kubectl(args ...string) string {
	k.w.t.Helper()
	out, err := k.Kubectl(context.WithoutCancel(k.w.t.Context()), args...)
	if err != nil {
		k.w.t.Fatal(err)
	}
	return out
}

// volume is a PersistentVolume as the cluster has it.
type volume struct {
	Metadata struct{ Name, UID, DeletionTimestamp string }
	Spec     struct{ NFS struct{ Server string } }
	Status   struct{ Phase string }
}

// volumes are all PersistentVolumes by name.
func (k *kubernetes) volumes() map[string]volume {
	k.w.t.Helper()
	var list struct{ Items []volume }
	if err := json.Unmarshal([]byte(k.kubectl("get", "pv", "-o", "json")), &list); err != nil {
		k.w.t.Fatal(err)
	}
	all := map[string]volume{}
	for _, v := range list.Items {
		all[v.Metadata.Name] = v
	}
	return all
}

// available waits until the three PersistentVolumes of the package are Available at an address.
func (k *kubernetes) available(address string) {
	k.w.t.Helper()
	said := ""
	defer func() {
		if k.w.t.Failed() {
			k.w.t.Logf("last there were %s; want three at %s", said, address)
		}
	}()
	loopback.Until(k.w.t, "three PersistentVolumes are Available at "+address, func() bool {
		all, good := k.volumes(), 0
		for _, v := range all {
			if v.Status.Phase == "Available" && v.Spec.NFS.Server == address && v.Metadata.DeletionTimestamp == "" {
				good++
			}
		}
		said = fmt.Sprintf("%+v", all)
		return len(all) == 3 && good == 3
	})
}

// unchanged asserts that these PersistentVolumes are there as they were.
func (k *kubernetes) unchanged(before map[string]volume) {
	k.w.t.Helper()
	now := k.volumes()
	for name, v := range before {
		if now[name] != v {
			k.w.t.Errorf("%s was %+v, is %+v", name, v, now[name])
		}
	}
}

// taken is the PersistentVolume that the states are of, and claim the claim to it.
const (
	taken = "nfs-pv1"
	claim = "default/data"
)

func (k *kubernetes) claim() {
	k.w.t.Helper()
	namespace, name, _ := strings.Cut(claim, "/")
	if err := k.Apply(k.w.t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s, namespace: %s}
spec: {accessModes: [ReadWriteMany], storageClassName: nfs, volumeName: %s, resources: {requests: {storage: 1Mi}}}
`, name, namespace, taken)); err != nil {
		k.w.t.Fatal(err)
	}
	k.phase("Bound")
}

func (k *kubernetes) release() {
	k.w.t.Helper()
	namespace, name, _ := strings.Cut(claim, "/")
	k.kubectl("delete", "pvc", name, "--namespace", namespace, "--timeout=60s")
	k.phase("Released")
}

func (k *kubernetes) phase(phase string) {
	k.w.t.Helper()
	k.kubectl("wait", "--for=jsonpath={.status.phase}="+phase, "pv/"+taken, "--timeout=90s")
}

// terminate deletes the PersistentVolume, which a finalizer holds back.
func (k *kubernetes) terminate() {
	k.w.t.Helper()
	k.kubectl("patch", "pv", taken, "--type=json", `--patch=[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/held"}]`)
	k.kubectl("delete", "pv", taken, "--wait=false")
}

func (k *kubernetes) letGo() {
	k.w.t.Helper()
	k.kubectl("patch", "pv", taken, "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
}

// empty removes all that a case has left. Its masters are gone.
func (k *kubernetes) empty() {
	k.w.t.Helper()
	k.kubectl("delete", "pvc", "--all", "--all-namespaces", "--timeout=60s")
	for name := range k.volumes() {
		k.kubectl("patch", "pv", name, "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
	}
	k.kubectl("delete", "pv", "--all", "--timeout=60s")
}
