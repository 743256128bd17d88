package kube_test

import (
	"maps"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// upgrade makes these servers the ones that are upgraded.
func (d *departing) upgrade(servers ...api.ClusterServer) {
	d.doc.ClusterDrains = &api.ClusterDrainsSection{Members: append([]api.ClusterServer{}, servers...)}
}

func (d *departing) drained(want api.Reason, parts ...string) converge.Report {
	d.t.Helper()
	return d.says(api.ConditionClusterMembersDrained, want, parts...)
}

func TestTheNodesOfMembersThatAreUpgradedAreDrained(t *testing.T) {
	results.Begin(t, suite, "drain-for-upgrade",
		"the Node of a member that is upgraded is cordoned and drained as its PodDisruptionBudget allows, stays, and is uncordoned after that; a Pod without a controller refuses it")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	for _, name := range []string{"w1", "w2", "w3"} {
		d.node(name)
	}
	d.pod("web-0", "w1", byReplicaSet, 0)
	d.pod("web-1", "w1", byReplicaSet, 0)
	d.budget(1, 1)
	d.pod("log", "w1", byDaemonSet, 0)

	d.upgrade(serverOf("w1"))
	stored := d.engine.Converge(t.Context(), d.doc, converge.Options{})
	if c := stored.Condition(api.ConditionClusterMembersDrained); c.Reason != api.ReasonWaitingForController || len(d.door.did()) > 0 {
		t.Errorf("for a document that the controller has not confirmed the agent did %v: %+v", d.door.did(), c)
	}
	d.drained(api.ReasonEvictionBlocked, "Pod default/web-1 on Node w1 cannot be evicted", "web-budget")
	d.wantNode("w1", true)
	d.pod("web-2", "w2", byReplicaSet, 0) // made again elsewhere
	d.allows(1)
	d.drained(api.ReasonMembersDrained, "1")
	d.expect(api.ReasonMembersLeft, "no member is to leave")
	d.wantNode("w1", true)
	d.wantRuns("log", "web-2")
	if want := map[string]int{"web-0": 1, "web-1": 1}; !maps.Equal(d.door.evicted, want) {
		t.Errorf("evicted %v, want %v", d.door.evicted, want)
	}
	d.door.did()
	if r := d.drained(api.ReasonMembersDrained); r.Changed || len(d.door.did()) > 0 {
		t.Errorf("a pass with nothing to do did %+v", r.Results)
	}

	// The next wave; the one before takes Pods again.
	d.pod("alone", "w3", byNobody, 0)
	d.pod("debug", "w3", byNobody, 0)
	d.upgrade(serverOf("w3"))
	if r := d.drained(api.ReasonUnmanagedPods, "Pod default/alone on Node w3; Pod default/debug on Node w3"); r.FailedCondition != "" {
		t.Errorf("somebody may delete the Pods meanwhile, and it is said to have failed: %s", r.FailedCondition)
	}
	d.wantNode("w1", false)
	d.wantNode("w3", false)
	d.ended("debug")
	d.drained(api.ReasonUnmanagedPods, "make these again: Pod default/alone on Node w3")
	d.doc.ClusterDrains.DeleteUnmanagedPods = true
	d.drained(api.ReasonMembersDrained, "1")
	d.wantNode("w3", true)
	d.upgrade()
	d.drained(api.ReasonMembersDrained, "no member is upgraded")
	d.wantNode("w3", false)
}

// The list of those that leave is often empty while members are upgraded.
func TestMembersThatLeaveAndMembersThatAreUpgraded(t *testing.T) {
	results.Begin(t, suite, "drain-and-departure", "who leaves does not uncordon who is upgraded, nor the other way round; a member that is to do both leaves")
	kubetest.Require(t)
	d := newDeparting(t, "disruption-controller")
	for _, name := range []string{"w1", "w2", "w3"} {
		d.node(name)
	}
	d.pod("web-0", "w2", byReplicaSet, 0)
	d.budget(1, 0)
	d.upgrade(serverOf("w1"), serverOf("w2"))
	d.leave(false, serverOf("w2"))
	d.expect(api.ReasonEvictionBlocked, "web-0")
	d.drained(api.ReasonMembersDrained, "1")
	d.wantNode("w1", true)
	d.wantNode("w2", true)
	d.ended("web-0")
	d.expect(api.ReasonMembersLeft, "1")
	if d.get("nodes", "w2") != nil {
		t.Error("the Node of a member that is to leave is there")
	}
	d.wantNode("w1", true)
	d.leave(false)
	d.expect(api.ReasonMembersLeft)
	d.wantNode("w1", true)
	d.doc.ClusterDrains = nil // another master speaks for the cluster
	d.leave(false)
	d.expect(api.ReasonMembersLeft)
	d.wantNode("w1", false)
}
