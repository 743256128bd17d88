package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// machines is a cluster that kubeadm has made of a master and a worker of a lab.
type machines struct {
	*testing.T
	master, worker lab.Node
}

// kubeadm makes a cluster of machines with real kubelets, by its own commands.
func TestKubeadmMakesAClusterOfMachines(t *testing.T) {
	c := results.Begin(t, suite, "machines",
		"kubeadm makes a cluster of a master and a worker of the lab: Nodes are Ready, Pods answer by a Service on both, also after a power cut")
	kubelet := kubetest.Machines(t)
	l := labtest.Open(t, lab.KindNspawn)
	m := &machines{T: t}
	began := time.Now()
	m.boot(l, kubelet)
	m.makeCluster()
	for _, node := range []lab.Node{m.master, m.worker} {
		m.kubectl("wait", "--for=create", "--timeout=3m", "node/"+node.Name())
		m.kubectl("wait", "--for=condition=Ready", "--timeout=3m", "node/"+node.Name())
	}
	c.Figure("power-on to both Nodes Ready", "%.0f s", time.Since(began).Seconds())
	for _, node := range []lab.Node{m.master, m.worker} {
		uuid := m.kubectl("get", "node", node.Name(), "-o", "jsonpath={.status.nodeInfo.systemUUID}")
		if uuid != strings.ReplaceAll(node.ServerID(), "-", "") {
			t.Errorf("the systemUUID of Node %s is %s: want the server id %s", node.Name(), uuid, node.ServerID())
		}
	}

	// The controller manager makes it some seconds later; before, no Pod is admitted.
	m.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=2m")
	m.apply(web)
	m.kubectl("rollout", "status", "deployment/web", "--timeout=3m")
	m.kubectl("rollout", "status", "deployment/coredns", "--namespace=kube-system", "--timeout=3m")
	m.askWeb("client")

	if err := errors.Join(m.worker.PowerCut(t.Context()), m.worker.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	m.askWeb("client-after-a-power-cut")
}

func (m *machines) boot(l *lab.Lab, kubelet *lab.Kubelet) {
	m.Helper()
	var all sync.WaitGroup
	var nodes [2]lab.Node
	var errs [2]error
	for i, name := range []string{"master", "worker"} {
		all.Go(func() {
			if nodes[i], errs[i] = l.Nspawn(m.Context(), lab.Spec{Name: name, Kubelet: kubelet}); errs[i] == nil {
				errs[i] = nodes[i].WaitCloudInit(m.Context()) // it gives the address
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		m.Fatal(err)
	}
	m.master, m.worker = nodes[0], nodes[1]
	m.Cleanup(m.showLogs)
}

func (m *machines) makeCluster() {
	m.Helper()
	version, err := kube.Version()
	if err != nil {
		m.Fatal(err)
	}
	m.push("/root/kubeadm.yaml", fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %s}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking: {podSubnet: 10.244.0.0/16}
---
%s`, m.master.Address(), version, kube.ProxyConfiguration))
	m.exec(m.master, "kubeadm", "init", "--config", "/root/kubeadm.yaml")
	join := strings.Fields(m.exec(m.master, "kubeadm", "token", "create", "--print-join-command"))
	m.exec(m.worker, join...)
	m.apply(string(kube.PodNetwork))
}

// web is a Pod on each node behind a Service; each says where it is.
const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}
      containers:
      - name: web
        image: ` + kube.TestImage + `
        command: [sh, -euc, 'mkdir /www; echo "$NODE" >/www/index.html; exec busybox httpd -f -p 8080 -h /www']
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// askWeb has a Pod of the worker ask the Service, by its name, until both nodes' Pods have answered.
func (m *machines) askWeb(name string) {
	m.Helper()
	m.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  restartPolicy: Never
  containers:
  - name: client
    image: %s
    command:
    - sh
    - -uc
    - |
      for node in %s %s; do
        until [ "$(timeout 2 busybox wget -qO- http://web)" = $node ]; do usleep 100000; done
      done
`, name, m.worker.Name(), kube.TestImage, m.master.Name(), m.worker.Name()))
	m.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+name, "--timeout=3m")
}

func (m *machines) kubectl(argv ...string) string {
	m.Helper()
	return m.exec(m.master, append([]string{"kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"}, argv...)...)
}

func (m *machines) apply(manifest string) {
	m.Helper()
	m.push("/root/manifest.yaml", manifest)
	m.kubectl("apply", "--filename=/root/manifest.yaml")
}

func (m *machines) push(path, text string) {
	m.Helper()
	if err := m.master.Push(m.Context(), path, 0o600, []byte(text)); err != nil {
		m.Fatal(err)
	}
}

func (m *machines) exec(node lab.Node, argv ...string) string {
	m.Helper()
	out, err := node.Exec(m.Context(), argv...)
	if err != nil {
		m.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func (m *machines) showLogs() {
	if !m.Failed() {
		return
	}
	for _, node := range []lab.Node{m.master, m.worker} {
		for _, unit := range []string{"kubelet", "containerd", "lab-kubelet"} {
			out, err := node.Exec(context.Background(), "journalctl", "--no-pager", "--lines=40", "--unit="+unit)
			m.Logf("%s of %s (%v):\n%s", unit, node.Name(), err, out)
		}
	}
	out, err := m.master.Exec(context.Background(), "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "nodes,pods,events", "--all-namespaces", "--output=wide")
	m.Logf("%v\n%s", err, out)
}
