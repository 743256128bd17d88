package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const suite = "kubernetes"

// requestFile is the request, packageFiles those of the VNF package that it speaks of. The script
// of the cluster, which the request has to name, is not in the package: nobody runs it.
const requestFile = "testdata/request.json"

var packageFiles = map[string]string{
	"Files/pod-network.yaml": string(kube.PodNetwork),
	"Files/kubeadm.yaml":     kube.ProxyConfiguration,
}

// What makes a server a master or a worker, as the request names it.
const (
	masterPoint  = "masterNode_CP1"
	workerPoint  = "workerNode_CP2"
	masterAspect = "master_instance"
	workerAspect = "worker_instance"
)

// cluster is a VNF that brings its Kubernetes.
type cluster struct {
	*sitetest.World
	*sitetest.VNF
	kubelet    *lab.Kubelet
	packageDir string
	request    request
	volume     lab.Disk // of the storage server, if there is one
}

// newCluster makes a VNF in a lab of its own, for containers and for what else is named.
func newCluster(t *testing.T, also ...lab.Kind) *cluster {
	t.Helper()
	w := &cluster{kubelet: kubetest.Machines(t), packageDir: t.TempDir(), request: readRequest(t, requestFile)}
	registry.Require(t)
	w.World = sitetest.NewWorld(t, append(also, lab.KindNspawn)...)
	w.VNF = w.NewVNF()
	for path, content := range packageFiles {
		w.write(path, content)
	}
	w.openRegistry()
	t.Cleanup(w.Explain)
	return w
}

// another is another VNF of the same package in the same lab.
func (w *cluster) another() *cluster {
	w.T.Helper()
	return &cluster{World: w.World, VNF: w.NewVNF(), kubelet: w.kubelet, packageDir: w.packageDir, request: readRequest(w.T, requestFile)}
}

// request is a body as Tacker gets it.
type request map[string]any

func readRequest(t *testing.T, path string) request {
	t.Helper()
	text, err := os.ReadFile(path)
	var r request
	if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// params are the members that say what the cluster is.
func (r request) params() map[string]any {
	return r["additionalParams"].(map[string]any)["k8s_cluster_installation_param"].(map[string]any)
}

// ask hands the request and the package to the controller.
func (w *cluster) ask() {
	w.T.Helper()
	w.Apply(w.File("request.json", w.request), w.packageDir)
}

// write puts a file into the VNF package.
func (w *cluster) write(path, content string) {
	w.T.Helper()
	path = filepath.Join(w.packageDir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		w.T.Fatal(err)
	}
}

// draw adds servers to the stack.
func (w *cluster) draw(masters, workers int) {
	for range masters {
		w.Draw("master", masterPoint, masterAspect)
	}
	for range workers {
		w.Draw("worker", workerPoint, workerAspect)
	}
}

// virtual is the beginning of the names of workers that are virtual machines.
const virtual = "virtual_"

// drawVirtual adds a worker with a kernel of its own.
func (w *cluster) drawVirtual() api.Server {
	return w.Draw(virtual+"worker", workerPoint, workerAspect)
}

// boot boots the machines of servers, side by side, with the VNF's user_data and nothing else.
func (w *cluster) boot(servers ...api.Server) {
	w.T.Helper()
	userData := w.UserData()
	w.bootThen(userData, func(ctx context.Context, m lab.Node, copied bool) error {
		if copied {
			return site.Inject(ctx, m, userData)
		}
		return nil
	}, servers...)
}

// bootThen does something with each machine when it is up. The storage server is a copy of the
// snapshot with its volume, whose cloud-init does not run.
func (w *cluster) bootThen(userData []byte, then func(ctx context.Context, m lab.Node, copied bool) error, servers ...api.Server) {
	w.T.Helper()
	var specs []lab.Spec
	for _, s := range servers {
		spec := sitetest.Spec(s, userData)
		if sitetest.Point(s) == storagePoint {
			spec.UserData, spec.Disks, spec.NFSServerOff = nil, []lab.Disk{w.volume}, true
		} else {
			spec.Kubelet, spec.Cold = w.kubelet, strings.HasPrefix(s.Name, virtual)
		}
		specs = append(specs, spec)
	}
	w.Boot(func(ctx context.Context, spec lab.Spec) (lab.Node, error) {
		start, copied := w.Lab.Nspawn, spec.Disks != nil
		if copied || spec.Cold {
			start = w.Lab.VM
		}
		node, err := start(ctx, spec)
		if err == nil {
			err = then(ctx, node, copied)
		}
		return node, err
	}, specs...)
}

// kubectl runs it on the first master, as the cluster's administrator.
func (w *cluster) kubectl(args ...string) string {
	w.T.Helper()
	out, err := w.tryKubectl(args...)
	if err != nil {
		w.T.Fatalf("%v\n%s", err, out)
	}
	return out
}

func (w *cluster) tryKubectl(args ...string) (string, error) {
	return w.Of(masterPoint)[0].Try(append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
}

// apply applies objects, YAML, as the cluster's administrator.
func (w *cluster) apply(objects string) {
	w.T.Helper()
	const file = "/root/objects.yaml"
	if err := w.Of(masterPoint)[0].Push(w.T.Context(), file, 0o600, []byte(objects)); err != nil {
		w.T.Fatal(err)
	}
	w.kubectl("apply", "-f", file)
}

// sound asserts what holds after every operation: each machine is in its role, and each master
// and worker has its Node.
func (w *cluster) sound() {
	w.T.Helper()
	for _, m := range w.Up() {
		m.Ready()
	}
	w.hasNodes()
}

// hasNodes asserts that the cluster has a Node for each master and worker and no other, all Ready.
func (w *cluster) hasNodes() {
	w.T.Helper()
	var want []string
	for _, m := range slices.Concat(w.Of(masterPoint), w.Of(workerPoint)) {
		want = append(want, m.Name()+"=True")
	}
	slices.Sort(want)
	got := strings.Fields(w.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.T.Errorf("the cluster has the Nodes %v, want %v", got, want)
	}
}

// secondPasses asserts that another pass plans nothing on any machine but the owner: it has the VIM's
// token in memory, and would ask for another one.
func (w *cluster) secondPasses() {
	w.T.Helper()
	for _, m := range w.Up() {
		if n, err := m.AsKnown(); err == nil && n.Status.Condition(api.ConditionClusterAccessReady) == nil {
			m.SecondPass()
		}
	}
}

// answers waits until a Deployment is available, whose Pods answer as kubelet probes them.
func (w *cluster) answers() {
	w.T.Helper()
	w.apply(kube.TestDeployment("web", kube.TestImage))
	w.Until("the Deployment is available", func() error {
		if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"); got != "3" {
			return fmt.Errorf("%q replicas are available: %s", got, w.kubectl("get", "pods", "-o", "wide"))
		}
		return nil
	})
}
