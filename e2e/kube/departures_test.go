package kube_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Two Pods run on the worker that leaves, and their budget lets one of them go at a time.
func TestAWorkerLeavesTheClusterInOrder(t *testing.T) {
	results.Begin(t, suite, "departure",
		"a worker is cordoned and drained as its PodDisruptionBudget allows, each Pod is evicted once, then its Node is deleted; what belongs to the Node stays until then")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	d.node("w1")
	d.node("w2")
	d.pod("web-0", "w1", byReplicaSet, 0)
	d.pod("web-1", "w1", byReplicaSet, 3600)
	d.budget(1, 1)
	for name, owner := range map[string]string{"log": byDaemonSet, "static": byNode, "done": byNobody} {
		d.pod(name, "w1", owner, 0)
	}
	d.phase("done", "Succeeded")
	d.pod("elsewhere", "w2", byNobody, 0)

	d.leave(false, serverOf("w1"))
	stored := d.engine.Converge(t.Context(), d.doc, converge.Options{})
	if c := stored.Condition(api.ConditionClusterMembersLeft); c.Reason != api.ReasonWaitingForController || len(d.door.did()) > 0 {
		t.Errorf("for a document that the controller has not confirmed the agent did %v: %+v", d.door.did(), c)
	}
	d.expect(api.ReasonEvictionBlocked, "Pod default/web-1 on Node w1 cannot be evicted", "web-budget")
	d.wantNode("w1", true)
	d.wantNode("w2", false)
	d.wantRuns("web-1")
	d.pod("web-2", "w2", byReplicaSet, 0) // made again elsewhere
	d.allows(1)
	for range 2 {
		d.expect(api.ReasonEvictionBlocked, "Pod default/web-1 on Node w1 has not ended yet")
		d.wantNode("w1", true)
	}
	d.wantRuns("log", "static", "done", "elsewhere", "web-2")
	d.ended("web-1")
	d.expect(api.ReasonMembersLeft, "1")
	if d.get("nodes", "w1") != nil {
		t.Error("the Node is there")
	}
	d.wantNode("w2", false)
	d.wantRuns("elsewhere", "web-2")
	if want := map[string]int{"web-0": 1, "web-1": 1}; !maps.Equal(d.door.evicted, want) {
		t.Errorf("evicted %v, want %v", d.door.evicted, want)
	}
	d.door.did()
	if r := d.expect(api.ReasonMembersLeft); r.Changed || len(d.door.did()) > 0 {
		t.Errorf("a pass with nothing to do did %+v", r.Results)
	}
}

// leaves wants one pass to cordon and drain the Node, and the next one to delete it: whoever takes
// the departure back in between finds the Node there.
func (d *departing) leaves(node string) {
	d.t.Helper()
	d.expect(api.ReasonConverging, "delete Node "+node)
	d.wantNode(node, true)
	d.expect(api.ReasonMembersLeft)
}

func (d *departing) evictions(pod string) int { return d.door.evicted[pod] }

func TestWhatIsNotDoneIsTakenBack(t *testing.T) {
	results.Begin(t, suite, "departure-taken-back", "an empty list uncordons what nodehitch has cordoned, and nothing that others have; a Node that others have cordoned leaves all the same")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	for _, name := range []string{"w1", "w2", "w3"} {
		d.node(name)
	}
	if _, err := d.Kubectl(t.Context(), "cordon", "w2"); err != nil {
		t.Fatal(err)
	}
	d.pod("web-0", "w1", byReplicaSet, 3600)
	d.pod("web-1", "w2", byReplicaSet, 3600)
	d.budget(2, 0)
	d.leave(false, serverOf("w1"), serverOf("w2"))
	d.expect(api.ReasonEvictionBlocked, "web-0", "web-1")
	d.wantNode("w1", true)
	d.leave(false)
	d.expect(api.ReasonMembersLeft, "no member is to leave")
	d.wantNode("w1", false)
	d.wantRuns("web-0", "web-1")
	if n := d.get("nodes", "w2"); n == nil || n.GetAnnotations()["nodehitch.io/cordoned"] != "" || n.Object["spec"].(map[string]any)["unschedulable"] != true {
		t.Errorf("the Node that others have cordoned is %+v", n)
	}
	d.leave(false, serverOf("w1"))
	d.expect(api.ReasonEvictionBlocked)
	d.leave(false, serverOf("w3")) // another START
	d.leaves("w3")
	d.wantNode("w1", false)
	if d.get("nodes", "w3") != nil {
		t.Error("w3 has not left")
	}
}

// No kubelet is left that would say that its Pods have ended.
func TestTheNodeOfADeadMachine(t *testing.T) {
	results.Begin(t, suite, "departure-dead-machine", "a Pod holds the Node of a dead machine for its grace only, and that of a machine that runs until it has ended")
	kubetest.Require(t)
	d := newDeparting(t)
	for _, name := range []string{"runs", "dead"} {
		d.node(name)
		d.pod("web-"+name, name, byReplicaSet, 3600)
	}
	d.dies("dead")
	d.leave(false, serverOf("runs"), serverOf("dead"))
	d.expect(api.ReasonEvictionBlocked, "Pod default/web-runs on Node runs has not ended yet", "Pod default/web-dead on Node dead has not ended yet")
	d.ahead = 2 * time.Hour
	if r := d.expect(api.ReasonEvictionBlocked, "web-runs"); strings.Contains(r.Condition(api.ConditionClusterMembersLeft).Message, "web-dead") {
		t.Error("a Pod that nothing can end keeps the Node")
	}
	d.wantNode("runs", true)
	d.wantNode("dead", true)
	d.leave(false, serverOf("dead"))
	d.expect(api.ReasonMembersLeft)
	if d.get("nodes", "dead") != nil {
		t.Error("the Node is there")
	}
	if n := d.evictions("web-dead"); n != 1 {
		t.Errorf("its Pod was evicted %d times", n)
	}
}

func TestAPodThatComesBeforeTheCordon(t *testing.T) {
	results.Begin(t, suite, "departure-late-pod", "a Pod that came to the Node after the agent had looked is evicted like the others")
	kubetest.Require(t)
	d := newDeparting(t)
	d.node("w1")
	d.door.first("PATCH /api/v1/nodes/w1", func() { d.pod("late-0", "w1", byReplicaSet, 3600) })
	d.leave(false, serverOf("w1"))
	d.expect(api.ReasonEvictionBlocked, "Pod default/late-0 on Node w1 has not ended yet")
	d.wantNode("w1", true)
	d.ended("late-0")
	d.expect(api.ReasonMembersLeft)
}

// No controller looks at the budget: the API server asks to try each eviction again after ten
// seconds.
func TestAPassOfADrainEnds(t *testing.T) {
	results.Begin(t, suite, "departure-bounded", "a pass does not wait as long as the API server asks, however many Pods it keeps")
	kubetest.Require(t)
	d := newDeparting(t)
	d.node("w1")
	for n := range 2 {
		d.pod(fmt.Sprint("web-", n), "w1", byReplicaSet, 0)
	}
	d.create("poddisruptionbudgets", `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web-budget"},
		"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}`)
	d.pod("free", "w1", byReplicaSet, 0)
	d.leave(false, serverOf("w1"))
	begun := time.Now()
	d.expect(api.ReasonEvictionBlocked, "web-0", "web-1", "web-budget")
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the pass took %v", took)
	}
	if d.evictions("free") != 1 {
		t.Error("the Pod without a budget was not evicted")
	}
}

func TestPodsThatNothingMakesAgain(t *testing.T) {
	results.Begin(t, suite, "departure-unmanaged", "a Pod without a controller refuses the departure before anything is done, unless the parameters or the operation let it go")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	for _, c := range []struct {
		node          string
		delete, force bool
	}{{"w1", false, false}, {"w2", true, false}, {"w3", false, true}} {
		d.node(c.node)
		d.pod("alone-"+c.node, c.node, byNobody, 0)
		d.pod("web-"+c.node, c.node, byReplicaSet, 0)
		d.leave(c.force, serverOf(c.node))
		d.doc.ClusterDepartures.DeleteUnmanagedPods = c.delete
		d.door.did()
		if c.delete || c.force {
			d.leaves(c.node)
			if d.evictions("alone-"+c.node) != 1 || d.get("nodes", c.node) != nil {
				t.Errorf("of %s were evicted %v", c.node, d.door.evicted)
			}
			continue
		}
		d.expect(api.ReasonUnmanagedPods, "Pod default/alone-w1 on Node w1")
		if did := d.door.did(); len(did) > 0 {
			t.Errorf("it refused, and did %v", did)
		}
		d.wantNode(c.node, false)
	}
}

func TestAForcedDepartureLeavesPodsThatStay(t *testing.T) {
	results.Begin(t, suite, "departure-forced", "by force a Node is deleted although a PodDisruptionBudget keeps its Pod; a Pod that may go is evicted")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	d.node("w1")
	d.pod("web-0", "w1", byReplicaSet, 3600)
	d.budget(1, 0)
	d.pod("free", "w1", byReplicaSet, 0)
	d.leave(true, serverOf("w1"))
	d.leaves("w1")
	d.wantRuns("web-0")
	if d.get("nodes", "w1") != nil || d.evictions("free") != 1 {
		t.Errorf("the Node is there, or of the Pods were evicted %v", d.door.evicted)
	}
}

// A Node of the server's name that is another machine's, and one that is known by the cloud's
// id alone.
func TestTheNodeOfAServer(t *testing.T) {
	results.Begin(t, suite, "departure-identity", "a Node is the server's by its systemUUID or, without one, by its providerID, whatever its name is")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	d.node("w1")
	d.create("nodes", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w2"}, "spec": {"providerID": "openstack:///%s"}}`, serverID("by provider"))
	leaves := serverOf("another")
	leaves.Name = "w1"
	d.leave(false, leaves, serverOf("by provider"))
	d.leaves("w2")
	d.wantNode("w1", false)
	if d.get("nodes", "w2") != nil {
		t.Error("the Node of the server's providerID is there")
	}
}

// Wherever the agent is killed, the next one does the rest and nothing twice.
func TestTheAgentIsKilledAtEachCallOfADeparture(t *testing.T) {
	record := results.Begin(t, suite, "departure-killed",
		"the agent is killed at each of its calls, before or after the API server has served it: no Pod is evicted twice, the Node that leaves is deleted, no other one is touched")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	d.node("stays")
	d.pod("kept", "stays", byNobody, 0)
	kills := 0
	for name, c := range map[string]struct {
		grace int // of its Pods
		limit time.Duration
	}{"pods-that-end-later": {3600, 100 * time.Millisecond}, "pods-that-end-at-once": {0, 2 * time.Second}} {
		for _, after := range []bool{false, true} {
			d.limit = c.limit
			for call, came := 1, true; came; call++ {
				node := fmt.Sprintf("%s-%d-%v", name, call, after)
				pods := []string{node + "-a", node + "-b"}
				d.node(node)
				for _, p := range pods {
					d.pod(p, node, byReplicaSet, c.grace)
				}
				d.leave(false, serverOf(node))
				if came = d.passesKilledAt(call, after); came {
					kills++
				}
				d.finish(node, pods)
			}
		}
	}
	d.wantNode("stays", false)
	d.wantRuns("kept")
	record.Figure("kills", "%d", kills)
	if kills < 20 {
		t.Errorf("the agent was killed at %d calls only", kills)
	}
}

// finish lets a new agent do the rest.
func (d *departing) finish(node string, pods []string) {
	d.t.Helper()
	d.limit = 2 * time.Second
	d.restart()
	d.pass()
	for _, p := range pods {
		if u := d.get("pods", p); u != nil {
			if u.GetDeletionTimestamp() == nil {
				d.t.Fatalf("Pod %s was not evicted", p)
			}
			d.ended(p)
		}
	}
	d.expect(api.ReasonMembersLeft)
	if d.get("nodes", node) != nil {
		d.t.Fatalf("Node %s is there", node)
	}
	for _, p := range pods {
		if n := d.evictions(p); n != 1 {
			d.t.Errorf("Pod %s was evicted %d times", p, n)
		}
	}
}
