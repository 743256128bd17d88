package kube_test

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"testing"

	stored "github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// networkManifest has what published networks have: values that the API server writes in
// another form, and an object of a kind that the manifest itself defines.
const networkManifest = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: net, namespace: net, creationTimestamp: null, labels: {app: net}}
spec:
  selector: {matchLabels: {app: net}}
  template:
    metadata: {labels: {app: net}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      tolerations: [{operator: Exists, effect: NoSchedule}]
      serviceAccountName: net
      initContainers:
      - {name: install, image: example.com/net:1, command: [cp], args: [-f, /a, /b], volumeMounts: [{name: cni, mountPath: /etc/cni/net.d}]}
      containers:
      - name: net
        image: example.com/net:1
        resources: {requests: {cpu: 0.1, memory: 51200Ki}}
        securityContext: {privileged: false, capabilities: {add: [NET_ADMIN, NET_RAW]}}
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: DEPTH, value: "5000"}]
        volumeMounts: [{name: run, mountPath: /run/net}]
      volumes:
      - {name: run, hostPath: {path: /run/net}}
      - {name: cni, hostPath: {path: /etc/cni/net.d, type: DirectoryOrCreate}}
status: {}
---
apiVersion: crd.example.com/v1
kind: IPPool
metadata: {name: default}
spec: {cidr: 10.244.0.0/16}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: net}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: net}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: net}
subjects: [{kind: ServiceAccount, name: net, namespace: net}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: net, namespace: net}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: net, namespace: net}
data:
  net-conf.json: |
    {"Network": "10.244.0.0/16"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ippools.crd.example.com}
spec:
  group: crd.example.com
  scope: Cluster
  names: {kind: IPPool, plural: ippools, singular: ippool}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: net}
`

func TestTheOwnerAppliesTheNetworkOfPods(t *testing.T) {
	results.Begin(t, suite, "agent-pod-network",
		"the owner applies a network's manifest at a real API server: once, kinds that it defines included; what others change in it is put back, what they add stays")
	m := hosttest.New()
	o := newOwner(t, m, "")
	store := stored.New(t.TempDir(), slog.New(slog.DiscardHandler))
	sum := sha256.Sum256([]byte(networkManifest))
	ref := api.FileReference{Sha256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(networkManifest))}
	if err := os.MkdirAll(store.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.Path(ref), []byte(networkManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	h := m.Host()
	joining := kubeadm.New(kubeadm.Options{Host: h, Files: store, StateDirectory: "/var/lib/nodehitch/agent", ServerID: memberID(0)})
	engine := converge.New(kubernetes.AfterJoining(kubernetes.Options{Host: h, Kubeadm: joining, Files: store})...)
	doc := &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster, PodNetwork: &api.PodNetworkSection{Manifest: &ref}}
	versions := func() string {
		return o.kubectl("get", "-n", "net", "daemonset/net", "serviceaccount/net", "configmap/net", "clusterrole/net", "clusterrolebinding/net", "namespace/net", "ippool/default",
			"-o", "jsonpath={range .items[*]}{.kind} {.metadata.resourceVersion} {.metadata.generation};{end}")
	}
	until := func(want string) {
		t.Helper()
		var c *api.Condition
		for range 50 {
			report := engine.Converge(t.Context(), doc, converge.Options{Confirmed: true})
			if c = report.Condition(api.ConditionPodNetworkReady); c.Reason == want {
				return
			}
		}
		t.Fatalf("the condition is %s: %s, want %s", c.Reason, c.Message, want)
	}
	until(api.ReasonDNSUnavailable) // all objects are applied, and there is no kubeadm
	before := versions()
	for range 3 {
		report := engine.Converge(t.Context(), doc, converge.Options{Confirmed: true})
		if report.Changed {
			t.Errorf("a pass with nothing to do did something: %+v", report.Results)
		}
	}
	if after := versions(); after != before {
		t.Errorf("it changed %s to %s", before, after)
	}
	t.Log(before)
	o.kubectl("patch", "-n", "net", "daemonset", "net", "--type=merge", "-p", `{"metadata": {"labels": {"theirs": "stays"}}, "spec": {"template": {"spec": {"hostNetwork": false}}}}`)
	o.kubectl("patch", "ippool", "default", "--type=merge", "-p", `{"spec": {"cidr": "10.0.0.0/8", "natOutgoing": true}}`)
	until(api.ReasonDNSUnavailable)
	if got := o.kubectl("get", "-n", "net", "daemonset", "net", "-o", "jsonpath={.spec.template.spec.hostNetwork} {.metadata.labels.theirs}"); got != "true stays" {
		t.Errorf("the DaemonSet has %s", got)
	}
	if got := o.kubectl("get", "ippool", "default", "-o", "jsonpath={.spec.cidr} {.spec.natOutgoing}"); got != "10.244.0.0/16 true" {
		t.Errorf("the IPPool has %s", got)
	}
}
