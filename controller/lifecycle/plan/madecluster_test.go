package plan_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// reportMember is a report of a master whose other conditions are True.
func reportMember(w *lifecycletest.World, reason api.Reason, facts *api.ClusterFacts) {
	s := w.Lacking(lifecycletest.MasterServer, api.ConditionClusterMember, reason, "not yet")
	s.Cluster = facts
	w.Report(lifecycletest.MasterServer, s)
}

// The first Node is not Ready before it has the Pods' network: the network must not wait for it,
// nor the machines that join.
func TestThePodNetworkDoesNotWaitForTheNodeThatNeedsIt(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithKubernetes(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.PodNetworkFile, lifecycletest.PodNetwork)
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer)
	w.Must(w.Enroll(lifecycletest.MasterServer))
	w.Must(w.Enroll(lifecycletest.WorkerServer))
	reportMember(w, api.ReasonWaitingForCluster, nil)
	if c := w.Document(lifecycletest.MasterServer); !c.Cluster.Initialize || c.Kubernetes == nil || c.ControlPlane == nil || c.PodNetwork != nil {
		t.Fatalf("a master that has joined nothing has %+v and the sections %v", c.Cluster, c.Sections())
	}
	reportMember(w, api.ReasonJoinFailed, nil)
	if c := w.Document(lifecycletest.MasterServer); !c.Cluster.Initialize || c.PodNetwork != nil {
		t.Fatalf("a master that could not make the cluster has %+v", c.Cluster)
	}
	reportMember(w, api.ReasonNodeNotReady, lifecycletest.ClusterFacts())
	if c := w.Document(lifecycletest.MasterServer); c.Cluster.Initialize || c.PodNetwork == nil || c.PodNetwork.Manifest == nil || c.ClusterMembers == nil {
		t.Fatalf("a master whose Node is not Ready has %+v and the sections %v", c.Cluster, c.Sections())
	}
	if c := w.Document(lifecycletest.WorkerServer).Cluster; c.CACertificateHash != lifecycletest.CAHash {
		t.Fatalf("the worker has %+v, and waits for the hash", c)
	}
	w.Converge(lifecycletest.WorkerServer)
	w.ReportCondition(lifecycletest.MasterServer, api.ConditionPodNetworkReady, api.ConditionFalse, api.ReasonDNSUnavailable, "no replica of coredns")
	w.WantState(op, api.Processing)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(op, api.Completed)
}

// A program that makes the cluster may not be done when kubelet has registered the Node.
func TestAClusterThatAnotherProgramMakesIsMadeUntilItsNodeIsReady(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithMembers(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Must(w.Enroll(lifecycletest.MasterServer))
	reportMember(w, api.ReasonNotJoined, nil)
	reportMember(w, api.ReasonNodeNotReady, nil)
	if c := w.Document(lifecycletest.MasterServer); !c.Cluster.Initialize || c.ClusterMembers != nil {
		t.Errorf("a master whose Node is not Ready has %+v", c)
	}
}

// An agent that cannot make the cluster is told nothing of it, and one that is upgraded everything.
func TestAnAgentThatCannotMakeTheClusterIsToldNothingOfIt(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithKubernetes(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.PodNetworkFile, lifecycletest.PodNetwork)
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		w.Must(w.Enroll(id))
		w.Poll(id, lifecycletest.AgentWithout("v0.1", api.SectionKubernetes, api.SectionControlPlane, api.SectionPodNetwork))
		if c := w.Document(id); c.Cluster != nil || c.Kubernetes != nil || c.ControlPlane != nil {
			t.Errorf("%s has the sections %v", id, c.Sections())
		}
		w.Converge(id)
	}
	if !slices.ContainsFunc(w.WantState(op, api.Processing).Withheld, func(h api.Withheld) bool {
		return h.Section == api.SectionCluster && h.Reason == api.ReasonAgentTooOld
	}) {
		t.Errorf("the operation does not say what is withheld: %+v", w.Operation(op.ID).Withheld)
	}
	w.Poll(lifecycletest.MasterServer, api.ThisAgent("v0.2"))
	reportMember(w, api.ReasonNotJoined, nil)
	if c := w.Document(lifecycletest.MasterServer); c.Kubernetes == nil || !c.Cluster.Initialize {
		t.Errorf("the upgraded agent has the sections %v", c.Sections())
	}
}

// Two masters that apply two networks would undo each other's.
func TestAMasterThatLeftAppliesNoPodNetwork(t *testing.T) {
	second := lifecycletest.UUID(2, 2)
	two := lifecycletest.FullTopology()
	two.Servers = append(two.Servers, lifecycletest.Server(second, "master"))
	w := lifecycletest.New(t)
	w.Put(lifecycletest.WithKubernetes(two))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.PodNetworkFile, lifecycletest.PodNetwork)
	w.Converge(lifecycletest.MasterServer, second)
	if w.Document(lifecycletest.MasterServer).PodNetwork == nil || w.Document(second).PodNetwork != nil {
		t.Fatalf("at first the masters have %v and %v", sections(w, lifecycletest.MasterServer), sections(w, second))
	}
	w.Put(lifecycletest.WithKubernetes(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"),
		lifecycletest.Server(second, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))))
	if w.Document(lifecycletest.MasterServer).PodNetwork != nil || w.Document(second).PodNetwork == nil {
		t.Errorf("the one that left has %v, the other one %v", sections(w, lifecycletest.MasterServer), sections(w, second))
	}
}

func sections(w *lifecycletest.World, id string) []string {
	config := w.Document(id)
	return config.Sections()
}
