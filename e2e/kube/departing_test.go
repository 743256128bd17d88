package kube_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/clusterdepartures"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// departing is a master whose agent lets members leave a cluster. The test stands in for the
// kubelets and for what makes Pods; API server, eviction and PodDisruptionBudgets are real.
type departing struct {
	*kube.Cluster
	t       *testing.T
	objects dynamic.Interface
	door    *door
	m       *hosttest.Machine
	engine  *converge.Engine
	doc     *api.NodeConfig
	// etcd is the URL of the masters' etcd, "" for none.
	etcd string
	// limit is how long the agent waits for Pods in one pass.
	limit time.Duration
	// ahead is how much later the agent's clock is than ours.
	ahead time.Duration
}

func newDeparting(t *testing.T, controllers ...string) *departing {
	t.Helper()
	d := &departing{Cluster: kubetest.Open(t, kube.Options{Controllers: controllers}), t: t, m: hosttest.New(), limit: 2 * time.Second}
	content, err := d.Kubeconfig(kube.Admin, kube.Masters)
	d.must(err)
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	d.must(err)
	config.QPS = -1
	d.objects, err = dynamic.NewForConfig(config)
	d.must(err)
	d.door = newDoor(t, config)
	d.m.Files[kubeapi.AdminKubeconfig] = hosttest.FileState{Content: d.door.kubeconfig(), Mode: 0o600}
	d.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster}
	d.leave(false)
	d.restart()
	return d
}

func (d *departing) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// restart makes a new agent without memory.
func (d *departing) restart() {
	o := clusterdepartures.Options{
		Host: d.m.Host(), DrainLimit: d.limit, EtcdEndpoint: d.etcd, Now: func() time.Time { return time.Now().Add(d.ahead) },
	}
	d.engine = converge.New(clusterdepartures.New(o), clusterdepartures.NewDrains(o))
}

// leave makes these servers the ones that leave.
func (d *departing) leave(force bool, servers ...api.ClusterServer) {
	d.doc.ClusterDepartures = &api.ClusterDeparturesSection{Members: append([]api.ClusterServer{}, servers...), Force: force}
}

// serverOf is the server of a Node that node has made.
func serverOf(name string) api.ClusterServer {
	return api.ClusterServer{ServerID: serverID(name), Name: "a server's name", Addresses: []string{}}
}

// serverID is an id that a name always has.
func serverID(name string) string { return api.FilesystemUUID(name) }

func resource(name string) schema.GroupVersionResource {
	switch name {
	case "poddisruptionbudgets":
		return schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: name}
	default:
		return schema.GroupVersionResource{Version: "v1", Resource: name}
	}
}

func (d *departing) of(name string) dynamic.ResourceInterface {
	if name == "nodes" {
		return d.objects.Resource(resource(name))
	}
	return d.objects.Resource(resource(name)).Namespace("default")
}

// create makes an object of JSON.
func (d *departing) create(of, format string, args ...any) *unstructured.Unstructured {
	d.t.Helper()
	u := &unstructured.Unstructured{}
	d.must(u.UnmarshalJSON(fmt.Appendf(nil, format, args...)))
	made, err := d.of(of).Create(d.t.Context(), u, metav1.CreateOptions{})
	d.must(err)
	return made
}

// node makes the Ready Node of the server that has this name.
func (d *departing) node(name string, addresses ...string) {
	d.t.Helper()
	list := []map[string]string{}
	for _, a := range addresses {
		list = append(list, map[string]string{"type": "InternalIP", "address": a})
	}
	text, err := json.Marshal(list)
	d.must(err)
	d.create("nodes", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}, "status": {"addresses": %s,
		"nodeInfo": {"systemUUID": %q, "machineID": "", "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "",
		"kubeProxyVersion": "", "operatingSystem": "", "architecture": ""}, "conditions": [{"type": "Ready", "status": "True"}]}}`, name, text, strings.ToUpper(serverID(name)))
}

// dies is what the API server has of a Node whose machine is gone.
func (d *departing) dies(name string) {
	d.t.Helper()
	_, err := d.of("nodes").Patch(d.t.Context(), name, types.StrategicMergePatchType,
		[]byte(`{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`), metav1.PatchOptions{}, "status")
	d.must(err)
}

// Owners of Pods. Nothing runs that would make a Pod again.
const (
	byReplicaSet = `"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "controller": true}],`
	byDaemonSet  = `"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "2f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "controller": true}],`
	byNode       = `"annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "w1", "uid": "3f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "controller": true}],`
	byNobody     = ""
)

// pod makes a Pod on a Node that is Running and Ready. It is of the app that its name begins with,
// such as web-0. Without a grace it has ended as soon as it is evicted.
func (d *departing) pod(name, node, owner string, grace int) {
	d.t.Helper()
	app, _, _ := strings.Cut(name, "-")
	d.create("pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, %s "labels": {"app": %q}},
		"spec": {"nodeName": %q, "terminationGracePeriodSeconds": %d, "containers": [{"name": "c", "image": "i"}]}}`, name, owner, app, node, grace)
	d.phase(name, "Running")
}

func (d *departing) phase(pod, phase string) {
	d.t.Helper()
	patch := fmt.Appendf(nil, `{"status": {"phase": %q, "conditions": [{"type": "Ready", "status": "True"}]}}`, phase)
	_, err := d.of("pods").Patch(d.t.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	d.must(err)
}

// budget wants this many Pods of the app web to run, and waits until so many may be evicted.
func (d *departing) budget(least, allowed int) {
	d.t.Helper()
	d.create("poddisruptionbudgets", `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web-budget"},
		"spec": {"minAvailable": %d, "selector": {"matchLabels": {"app": "web"}}}}`, least)
	d.allows(allowed)
}

// allows waits until the budget allows so many evictions.
func (d *departing) allows(evictions int) {
	d.t.Helper()
	_, err := d.Kubectl(d.t.Context(), "wait", fmt.Sprintf("--for=jsonpath={.status.disruptionsAllowed}=%d", evictions), "pdb/web-budget", "--timeout=120s")
	d.must(err)
}

// ended is what kubelet does once the containers of a Pod have ended.
func (d *departing) ended(pod string) {
	d.t.Helper()
	none := int64(0)
	d.must(d.of("pods").Delete(d.t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: &none}))
}

// get is an object, nil if there is none.
func (d *departing) get(of, name string) *unstructured.Unstructured {
	d.t.Helper()
	u, err := d.of(of).Get(d.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return u
}

// wantRuns wants these Pods to be there and not to have been evicted.
func (d *departing) wantRuns(pods ...string) {
	d.t.Helper()
	for _, name := range pods {
		if p := d.get("pods", name); p == nil || p.GetDeletionTimestamp() != nil {
			d.t.Errorf("Pod %s was evicted, and has to stay", name)
		}
	}
}

// wantNode wants the Node to be there, cordoned by nodehitch or not.
func (d *departing) wantNode(name string, cordoned bool) {
	d.t.Helper()
	n := d.get("nodes", name)
	if n == nil {
		d.t.Fatalf("Node %s was deleted", name)
	}
	unschedulable, _, _ := unstructured.NestedBool(n.Object, "spec", "unschedulable")
	if _, ours := n.GetAnnotations()["nodehitch.io/cordoned"]; unschedulable != cordoned || ours != cordoned {
		d.t.Errorf("Node %s is unschedulable: %v, by nodehitch: %v; want %v", name, unschedulable, ours, cordoned)
	}
}

func (d *departing) pass() converge.Report {
	return d.engine.Converge(d.t.Context(), d.doc, converge.Options{Confirmed: true})
}

// expect makes a pass; the condition must have the reason, and its message all parts.
func (d *departing) expect(want api.Reason, parts ...string) converge.Report {
	d.t.Helper()
	return d.says(api.ConditionClusterMembersLeft, want, parts...)
}

func (d *departing) says(condition string, want api.Reason, parts ...string) converge.Report {
	d.t.Helper()
	r := d.pass()
	c := r.Condition(condition)
	if c.Reason != want {
		d.t.Fatalf("the condition is %s %s: %s; want %s", c.Status, c.Reason, c.Message, want)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			d.t.Errorf("the message %q does not say %q", c.Message, part)
		}
	}
	return r
}

// converge repeats passes until the condition has the reason.
func (d *departing) converge(want api.Reason) {
	d.t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(90 * time.Second); ; <-tick.C {
		r := d.pass()
		c := r.Condition(api.ConditionClusterMembersLeft)
		if c.Reason == want {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the condition is %s %s: %s; want %s", c.Status, c.Reason, c.Message, want)
		}
	}
}

// door stands between the agent and the API server. It counts what the API server did, and may
// end the agent at one of its calls.
type door struct {
	*httptest.Server
	mu sync.Mutex
	// calls are all since the last time, writes those that changed something. evicted counts
	// the evictions of each Pod that were granted, by its name.
	calls   int
	writes  []string
	evicted map[string]int
	// kill ends the agent at this call, 0 for none: before the API server has it, or after.
	kill  int
	after bool
	dead  func()
	// before is what happens before the first of these calls.
	before map[string]func()
}

func newDoor(t *testing.T, config *rest.Config) *door {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{evicted: map[string]int{}, before: map[string]func(){}}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ModifyResponse: d.answered}
	d.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.ends() {
			panic(http.ErrAbortHandler)
		}
		d.comes(r.Method + " " + r.URL.Path)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

var errKilled = errors.New("the agent was killed")

// ends counts a call, and reports whether the agent ends before it.
func (d *door) ends() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.kill == 0 || d.calls < d.kill || d.after && d.calls == d.kill {
		return false
	}
	d.dead()
	return true
}

// comes says that a call comes to the one who waits for it, once.
func (d *door) comes(call string) {
	d.mu.Lock()
	do := d.before[call]
	delete(d.before, call)
	d.mu.Unlock()
	if do != nil {
		do()
	}
}

// answered notes what the API server did.
func (d *door) answered(r *http.Response) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := r.Request
	if q.Method != http.MethodGet && r.StatusCode < 300 {
		d.writes = append(d.writes, q.Method+" "+q.URL.Path)
		if pod, ok := strings.CutSuffix(q.URL.Path, "/eviction"); ok {
			d.evicted[pod[strings.LastIndex(pod, "/")+1:]]++
		}
	}
	if d.kill != 0 && d.after && d.calls >= d.kill {
		d.dead()
		return errKilled
	}
	return nil
}

// first has this happen before the next such call.
func (d *door) first(call string, do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before[call] = do
}

// did are the writes since the last time.
func (d *door) did() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	did := d.writes
	d.writes, d.calls = nil, 0
	return did
}

// kubeconfig leads to the door.
func (d *door) kubeconfig() string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: x}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, d.URL, base64.StdEncoding.EncodeToString(ca))
}

// passesKilledAt makes two passes of an agent that is killed at its call of this number, before or
// after the API server has served it, and reports whether it came so far.
func (d *departing) passesKilledAt(call int, after bool) bool {
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	d.restart()
	d.door.did()
	d.door.mu.Lock()
	d.door.kill, d.door.after, d.door.dead = call, after, cancel
	d.door.mu.Unlock()
	for range 2 { // the second deletes
		d.engine.Converge(ctx, d.doc, converge.Options{Confirmed: true, Grace: time.Millisecond})
	}
	d.door.mu.Lock()
	defer d.door.mu.Unlock()
	came := d.door.calls >= call
	d.door.kill = 0
	return came
}
