package kubernetes_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const network = api.ConditionPodNetworkReady

// manifest has the order of what people publish, but for the namespace.
const manifest = `# a network
kind: ConfigMap
apiVersion: v1
metadata: {name: config, namespace: net}
data: {net-conf.json: "{}"}
---
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: net, namespace: net, creationTimestamp: null}
spec: {template: {spec: {hostNetwork: true}}}
status: {numberReady: 0}
---
kind: List
apiVersion: v1
items:
- {kind: ServiceAccount, apiVersion: v1, metadata: {name: net}}
- {kind: Namespace, apiVersion: v1, metadata: {name: net}}
`

const (
	namespaceAt = "/api/v1/namespaces/net"
	configAt    = "/api/v1/namespaces/net/configmaps/config"
	setAt       = "/apis/apps/v1/namespaces/net/daemonsets/net"
	accountAt   = "/api/v1/namespaces/default/serviceaccounts/net"
)

// owner is a member that speaks for the cluster, with a Node and CoreDNS.
func owner(t *testing.T) *rig {
	r := first(t)
	r.doc.PodNetwork = &api.PodNetworkSection{Manifest: r.give(manifest)}
	r.api.Put(coredns, object{"apiVersion": "apps/v1", "kind": "Deployment", "status": object{"availableReplicas": 2}})
	r.api.Did()
	return r
}

func TestTheManifestIsAppliedOnceInTheOrderOfNeed(t *testing.T) {
	r := owner(t)
	r.expect(network, "True NetworkReady", "1 of 1 Nodes are Ready")
	if did, want := r.api.Did(), []string{"PATCH " + namespaceAt, "PATCH " + configAt, "PATCH " + setAt, "PATCH " + accountAt}; !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
	if set := r.api.Get(setAt); at(set, "status") != nil || at(set, "spec", "template", "spec", "hostNetwork") != true {
		t.Errorf("the DaemonSet is %v", set)
	}
	r.idle()
	r.restart()
	r.idle()
	changed := r.api.Get(configAt)
	changed["data"] = object{"net-conf.json": "{}", "other": "stays"}
	r.api.Put(configAt, changed)
	r.idle() // a member that the manifest does not have
	changed["data"] = object{"net-conf.json": "somebody's"}
	r.api.Put(configAt, changed)
	r.api.Remove(setAt)
	r.expect(network, "True NetworkReady")
	if did, want := r.api.Did(), []string{"PATCH " + configAt, "PATCH " + setAt}; !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}

func TestTheManifestIsFetchedAndAppliedInOnePass(t *testing.T) {
	r := owner(t)
	r.converge()
	r.api.Did()
	r.doc.PodNetwork.Manifest = &api.FileReference{Sha256: strings.Repeat("0", 64), SizeBytes: 1}
	r.expect(network, "False FileUnavailable")
	if did := r.api.Did(); did != nil {
		t.Errorf("did %q", did)
	}
}

func TestAManifestFromDiskIsNotApplied(t *testing.T) {
	r := owner(t)
	r.doc.PodNetwork.Manifest = nil
	r.expect(network, "True NetworkReady")
	r.doc.PodNetwork.Manifest = r.give(manifest)
	r.api.Did()
	stored := r.engine.Converge(t.Context(), r.doc, converge.Options{})
	if c := stored.Condition(network); c.Reason != api.ReasonWaitingForController {
		t.Errorf("the condition is %+v", c)
	}
	if did := r.api.Did(); did != nil {
		t.Errorf("did %q", did)
	}
}

func TestWhatIsNotReadyIsNamed(t *testing.T) {
	node := func(name, server string, ready bool) func(*rig) {
		return func(r *rig) {
			o := kubeapitest.Node(server, ready)
			kubeapitest.Metadata(o)["annotations"] = object{kubeapi.ServerIDAnnotation: server}
			r.api.Put("/api/v1/nodes/"+name, o)
		}
	}
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
		words  []string
	}{
		"a Node":             {node("worker-1", otherID, false), "False NodeNotReady", []string{"Node worker-1", "Kubelet stopped"}},
		"a member's Node":    {func(r *rig) { r.members(serverID, otherID); node("worker-1", otherID, false)(r) }, "False NodeNotReady", []string{"worker-1"}},
		"a deleted server's": {func(r *rig) { r.members(serverID); node("worker-1", otherID, false)(r) }, "True NetworkReady", nil},
		"two Nodes":          {func(r *rig) { node("a", otherID, false)(r); node("b", serverID, false)(r) }, "False NodeNotReady", []string{"2 Nodes", "a, b"}},
		"CoreDNS": {func(r *rig) {
			r.api.Put(coredns, object{"apiVersion": "apps/v1", "kind": "Deployment", "status": object{"unavailableReplicas": 2}})
		}, "False DNSUnavailable", []string{"coredns"}},
		"no CoreDNS":             {func(r *rig) { r.api.Remove(coredns) }, "False DNSUnavailable", []string{"has no Deployment"}},
		"no API server":          {func(r *rig) { r.api.Down() }, "False ClusterNotInstalled", nil},
		"what is no manifest":    {func(r *rig) { r.doc.PodNetwork.Manifest = r.give("{") }, "False ManifestRejected", nil},
		"an object without kind": {func(r *rig) { r.doc.PodNetwork.Manifest = r.give("metadata: {name: x}") }, "False ManifestRejected", []string{"kind"}},
		"a kind that the API server does not have": {
			func(r *rig) {
				r.doc.PodNetwork.Manifest = r.give("kind: IPPool\napiVersion: crd.example.com/v1\nmetadata: {name: x}\n")
			},
			"False Converging", []string{"IPPool x", "crd.example.com/v1"},
		},
		"an object that the API server refuses": {
			func(r *rig) {
				r.api.Remove(setAt)
				r.api.Refuse["PATCH "+setAt] = func(w http.ResponseWriter) {
					kubeapitest.Refusal(w, http.StatusUnprocessableEntity, "Invalid", "spec.selector: Required value")
				}
			},
			"False ManifestRejected", []string{"DaemonSet net/net", "spec.selector: Required value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := owner(t)
			r.expect(network, "True NetworkReady")
			c.change(r)
			r.expect(network, c.want, c.words...)
		})
	}
}

// members lists the servers that the cluster is to have.
func (r *rig) members(ids ...string) {
	r.doc.ClusterMembers = &api.ClusterMembersSection{}
	for _, id := range ids {
		r.doc.ClusterMembers.Members = append(r.doc.ClusterMembers.Members, api.ClusterMember{ServerID: id, Role: api.RoleWorker})
	}
}

func TestAKindIsUsedOnceItIsServed(t *testing.T) {
	r := owner(t)
	r.doc.PodNetwork.Manifest = r.give("kind: IPPool\napiVersion: crd.example.com/v1\nmetadata: {name: x}\n")
	r.expect(network, "False Converging")
	r.api.Serves["/apis/crd.example.com/v1"] = map[string]string{"IPPool": "/ippools"}
	r.expect(network, "True NetworkReady")
	if did, want := r.api.Did(), []string{"PATCH /apis/crd.example.com/v1/ippools/x"}; !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
	r.idle()
}

// All Nodes are cordoned until this master, too, is Ready after its upgrade.
func TestNoDNSIsExpectedWhileNoNodeTakesPods(t *testing.T) {
	for name, c := range map[string]struct {
		upgraded, other bool // members are upgraded; another Node takes Pods
		want            string
	}{
		"the only Node is upgraded":        {true, false, "True NetworkReady"},
		"another Node takes Pods":          {true, true, "False DNSUnavailable"},
		"an operator has cordoned the one": {false, false, "False DNSUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			r := owner(t)
			r.expect(network, "True NetworkReady")
			node := r.api.Get(own)
			node["spec"] = object{"unschedulable": true}
			r.api.Put(own, node)
			r.api.Put(coredns, object{"apiVersion": "apps/v1", "kind": "Deployment", "status": object{}})
			r.doc.ClusterDrains = &api.ClusterDrainsSection{Members: []api.ClusterServer{}}
			if c.upgraded {
				r.doc.ClusterDrains.Members = append(r.doc.ClusterDrains.Members, api.ClusterServer{ServerID: serverID})
			}
			if c.other {
				r.api.Put("/api/v1/nodes/server-1", kubeapitest.Node(otherID, true))
			}
			r.expect(network, c.want)
		})
	}
}
