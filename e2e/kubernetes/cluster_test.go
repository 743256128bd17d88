package kubernetes

import (
	"context"
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
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const suite = "kubernetes"

// The request, and the files of the VNF package that it speaks of.
const body = "testdata/request.json"

var packageFiles = map[string]string{
	"Scripts/install_k8s_cluster.sh": "#!/bin/sh\n# The request has to have it. It is not run.\nexit 1\n",
	"Files/pod-network.yaml":         string(kube.PodNetwork),
	"Files/kubeadm.yaml":             kube.ProxyConfiguration + kubeletConfiguration,
}

// kubeletConfiguration lets kubelets run on a host whose disk is nearly full: they see that of
// the host, and would remove images and evict Pods.
const kubeletConfiguration = `---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: 1%, imagefs.available: 1%}
`

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
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	w := &cluster{kubelet: kubetest.Machines(t), packageDir: t.TempDir()}
	registry.Require(t)
	w.World = sitetest.NewWorld(t, lab.KindNspawn)
	w.VNF = w.NewVNF()
	for path, content := range packageFiles {
		w.write(path, content)
	}
	w.openRegistry()
	t.Cleanup(w.Explain)
	return w
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

// boot boots the machines of servers, side by side.
func (w *cluster) boot(servers ...api.Server) {
	w.T.Helper()
	userData := w.UserData()
	var specs []lab.Spec
	for _, s := range servers {
		spec := sitetest.Spec(s, userData)
		spec.Kubelet = w.kubelet
		specs = append(specs, spec)
	}
	w.Boot(func(ctx context.Context, spec lab.Spec) (lab.Node, error) { return w.Lab.Nspawn(ctx, spec) }, specs...)
}

// kubectl runs it on the first master, as the cluster's administrator.
func (w *cluster) kubectl(args ...string) string {
	w.T.Helper()
	return w.Of(masterPoint)[0].Run(append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
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

// sound asserts what holds after every operation: the cluster has a Node for each machine and
// no other, all Ready.
func (w *cluster) sound() {
	w.T.Helper()
	var want []string
	for _, m := range slices.Concat(w.Of(masterPoint), w.Of(workerPoint)) {
		m.Ready()
		want = append(want, m.Name()+"=True")
	}
	slices.Sort(want)
	got := strings.Fields(w.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.T.Errorf("the cluster has the Nodes %v, want %v", got, want)
	}
}

// answers waits until a Deployment is available, whose Pods answer as kubelet probes them.
func (w *cluster) answers() {
	w.T.Helper()
	w.apply(deployment)
	w.Until("the Deployment is available", func() error {
		if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"); got != "3" {
			return fmt.Errorf("%q replicas are available: %s", got, w.kubectl("get", "pods", "-o", "wide"))
		}
		return nil
	})
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: ` + kube.TestImage + `
        command: [busybox, httpd, -f, -p, "8080"]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
`
