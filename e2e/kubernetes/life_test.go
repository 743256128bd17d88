package kubernetes

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// operations are a cluster's life, in this order.
var operations = []struct {
	name, shows string
	run         func(*cluster, *results.Case)
}{
	{"instantiate", "one master and two workers become a cluster: END completes when each Node is Ready, the Pods' network is there and CoreDNS is available", (*cluster).instantiate},
	{"private-registry", "Pods run an image that only a private registry has, with TLS and a login, and need no imagePullSecret", (*cluster).privateRegistry},
	{"scale-out", "a worker that comes later joins, and gets Pods", (*cluster).scaleOut},
	{"scale-in", "a worker is drained before its server goes, and its Node with it", (*cluster).scaleIn},
	{"heal-worker", "a worker is replaced by a new machine", (*cluster).healWorker},
	{"vim", "the token of the VIM makes a Deployment, and the claim and the Pod of the tutorial, which writes to a volume", (*cluster).vim},
	{"heal-vnf", "each machine is replaced at once; the machines become another cluster", (*cluster).healVNF},
	{"again", "the VNF is terminated and instantiated again", (*cluster).again},
}

// TestLife takes a cluster through its operations.
func TestLife(t *testing.T) {
	w := newCluster(t)
	for _, o := range operations {
		if !t.Run(o.name, func(t *testing.T) {
			r := results.Begin(t, suite, o.name, o.shows)
			defer w.During(t)()
			defer w.Explain()
			o.run(w, r)
			w.sound()
		}) {
			t.Fatalf("%s has left something else to the operations after it", o.name)
		}
	}
}

func (w *cluster) instantiate(r *results.Case) {
	w.draw(1, 2)
	w.ask()
	began := time.Now()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	w.answers()
}

func (w *cluster) scaleOut(r *results.Case) {
	w.draw(0, 1)
	added := w.Topology.Servers[len(w.Topology.Servers)-1]
	began := time.Now()
	w.boot(added)
	w.Operate(api.Scale, "--type=SCALE_OUT")
	r.Figure("machine powered on to END", "%.1f s", time.Since(began).Seconds())
}

// vim uses the cluster as a VIM does: with what hitchctl gives, and nothing of the masters.
func (w *cluster) vim(*results.Case) {
	var access string
	w.Until("the cluster's access is known", func() error {
		out := w.CLI("get", "cluster-access", w.ID, "-o", "kubeconfig")
		if access = out.Stdout; out.Code != 0 {
			return errors.New(out.String())
		}
		return nil
	})
	const kubeconfig, object = "/root/vim.conf", "/root/vim.yaml"
	worker := w.Of(workerPoint)[0]
	if err := errors.Join(worker.Push(w.T.Context(), kubeconfig, 0o600, []byte(access)),
		worker.Push(w.T.Context(), object, 0o600, []byte(kube.TestDeployment("by-the-vim", kube.TestImage)))); err != nil {
		w.T.Fatal(err)
	}
	worker.Run("kubectl", "--kubeconfig", kubeconfig, "apply", "-f", object)
	worker.Run("kubectl", "--kubeconfig", kubeconfig, "wait", "--for=condition=Available", "--timeout=2m", "deployment/by-the-vim")
	w.tutorial(worker, kubeconfig)
}

// volumeOfANode stands for a volume of a storage server, which a container cannot mount.
const volumeOfANode = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: here}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: nfs, hostPath: {path: /srv/here, type: DirectoryOrCreate}}
`

// tutorial lets the Pod of docs/tutorial.md write, with the access of a VIM.
func (w *cluster) tutorial(worker *sitetest.Machine, kubeconfig string) {
	w.apply(volumeOfANode)
	const file = "/root/claim-and-pod.yaml"
	example, err := os.ReadFile("../../docs/examples/claim-and-pod.yaml")
	if err := errors.Join(err, worker.Push(w.T.Context(), file, 0o600, []byte(strings.Replace(string(example), "busybox:1.36", kube.TestImage, 1)))); err != nil {
		w.T.Fatal(err)
	}
	worker.Run("kubectl", "--kubeconfig", kubeconfig, "apply", "-f", file)
	var got string
	w.Until("the Pod of the tutorial has ended", func() error {
		const status = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.message}"
		got = strings.TrimSpace(worker.Run("kubectl", "--kubeconfig", kubeconfig, "get", "pod", "shop", "-o", status))
		if !strings.HasPrefix(got, "Succeeded") && !strings.HasPrefix(got, "Failed") {
			return errors.New(got + ": " + w.kubectl("describe", "pod,pvc"))
		}
		return nil
	})
	if got != "Succeeded an order" {
		w.T.Errorf("the Pod of the tutorial has ended as %q: %s", got, w.kubectl("describe", "pod", "shop"))
	}
	worker.Run("kubectl", "--kubeconfig", kubeconfig, "delete", "-f", file)
}

func (w *cluster) healVNF(r *results.Case) {
	w.Operate(api.Heal, sitetest.PhaseStart)
	var replaced []api.Server
	for _, m := range slices.Concat(w.Of(masterPoint), w.Of(workerPoint)) {
		w.Destroy(m)
		replaced = append(replaced, w.Redraw(m.Server))
	}
	began := time.Now()
	w.boot(replaced...)
	w.Operate(api.Heal)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	w.answers()
}

func (w *cluster) again(*results.Case) {
	w.Operate(api.Terminate, sitetest.PhaseStart)
	for _, m := range slices.Concat(w.Of(masterPoint), w.Of(workerPoint)) {
		w.Drop(m.Server)
		w.Destroy(m)
	}
	w.Operate(api.Terminate)
	w.draw(1, 1)
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	w.answers()
}

func (w *cluster) scaleIn(*results.Case) {
	leaves := w.Of(workerPoint)[0]
	w.Operate(api.Scale, "--type=SCALE_IN", sitetest.PhaseStart, sitetest.VNFC(leaves.Server))
	if left := w.kubectl("get", "nodes", "-o", "name"); slices.Contains(strings.Fields(left), "node/"+leaves.Name()) {
		w.T.Errorf("START has completed, and the cluster has the Nodes %s", left)
	}
	w.Drop(leaves.Server)
	w.Destroy(leaves)
	w.Operate(api.Scale, "--type=SCALE_IN")
	w.answers()
}

func (w *cluster) healWorker(*results.Case) {
	old := w.Of(workerPoint)[0]
	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(old.Server))
	w.Destroy(old)
	replaced := w.Redraw(old.Server)
	w.boot(replaced)
	w.Operate(api.Heal, sitetest.VNFC(replaced))
	w.answers()
}
