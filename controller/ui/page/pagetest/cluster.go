package pagetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Cluster is a Kubernetes cluster that nodehitch makes, in the middle of its INSTANTIATE: the first
// master has made it and holds the shared address, the others join.
func Cluster() World {
	cluster, vip := "6d0f1b2a-94c7-4e0b-8b57-2c1f3a4d5e6f", "10.10.0.9"
	w := Empty()
	start := 58 * time.Second
	kinds := []string{api.ConditionEngineReady, api.ConditionKubernetesInstalled, api.ConditionClusterMember, api.ConditionControlPlaneHealthy, api.ConditionPodNetworkReady}
	messages := []string{"containerd 1.7.24 runs, and offers kubelet its interface", "kubeadm and kubelet 1.34.4 are installed", "Node NAME is Ready",
		"the API server at 10.10.0.11:6443 is ready, and so are etcd, controller manager and scheduler; this master holds " + vip, ""}
	for k, name := range []string{"master1", "master2", "master3", "worker1", "worker2"} {
		role, done := api.RoleMaster, 2 // conditions that are True
		if k > 2 {
			role = api.RoleWorker
		}
		n := node(cluster, id(31, k), name, role, fmt.Sprintf("10.10.0.%d", 11+k))
		n.Ready, n.EnrolledAt, n.Status.AppliedGeneration, n.Status.AppliedDigest = false, at(start-5*time.Second), 0, ""
		of := kinds[:3]
		switch {
		case k == 0:
			of, done = kinds, 4
		case k == 3:
			done = 3
		case role == api.RoleMaster:
			of = kinds[:4]
		}
		n.Status.Conditions = []api.Condition{condition(api.ConditionReady, api.ConditionFalse, api.ReasonConverging, start-6*time.Second, "the agent is applying the new configuration")}
		for i, kind := range of {
			d := start - time.Duration(8+9*i)*time.Second
			c := condition(kind, api.ConditionTrue, good[kind], d, strings.Replace(messages[i], "NAME", name, 1))
			switch {
			case i < done:
				w.Events = append(w.Events, change(d, n, kind, "", "True", c.Reason, c.Message))
			case kind == api.ConditionClusterMember:
				c = condition(kind, api.ConditionFalse, api.ReasonConverging, d, "left to do: join the cluster (kubeadm join)")
				n.Status.Activity = &api.Activity{Condition: kind, Summary: "join the cluster (kubeadm join)", StartedAt: ago(7 * time.Second)}
			case kind == api.ConditionControlPlaneHealthy:
				c = condition(kind, api.ConditionFalse, api.ReasonWaitingForCluster, d, "this master is no member of a cluster yet; see ClusterMember")
			default:
				c = condition(kind, api.ConditionFalse, api.ReasonNodeNotReady, d, "Node worker1 is not Ready: container runtime network not ready: cni plugin not initialized")
			}
			if i >= done {
				w.Events = append(w.Events, change(d, n, kind, "", "False", c.Reason, c.Message))
			}
			n.Status.Conditions = append(n.Status.Conditions, c)
		}
		if k == 3 {
			set(&n, condition(api.ConditionReady, api.ConditionTrue, api.ReasonReady, 20*time.Second, ""))
			n.Ready, n.Status.AppliedGeneration, n.Status.AppliedDigest = true, n.Generation, n.Digest
		}
		w.Nodes = append(w.Nodes, n)
	}
	i := instance(cluster, api.KubernetesCluster, w.Nodes)
	i.Name, i.State, i.CreatedAt, i.UpdatedAt, i.DesiredVersion = "site 1", api.NotInstantiated, ago(5*time.Minute), ago(start), 1
	i.AdditionalParams = json.RawMessage(strings.NewReplacer(`"vim_name"`, `"kubernetes": {"version": "1.34.4", "pod_network_manifest_path": "Files/kubernetes/pod-network.yaml"}, "vim_name"`,
		`"cluster_cp_name": "masterNode_CP1"`, `"cluster_cp_name": "vip_CP"`).Replace(clusterParams))
	w.Instances = []api.Instance{i}
	o := api.Operation{ID: cluster + "/1", Sequence: 1, VnfInstanceID: cluster, VnfInstanceName: i.Name, Operation: api.Instantiate, Phase: api.PhaseEnd, State: api.Processing,
		StartedAt: ago(start), Deadline: ago(start).Add(30 * time.Minute)}
	for k := range w.Nodes {
		n := &w.Nodes[k]
		n.VnfInstanceName = i.Name
		t := api.OperationTarget{NodeID: n.ID, Name: n.Name, Ready: n.Ready}
		for _, c := range slices.Backward(n.Status.Conditions[1:]) {
			if !n.Ready && c.Status != api.ConditionTrue {
				t.Reason, t.Message = c.Reason, c.Type+": "+c.Message
			}
		}
		o.Targets = append(o.Targets, t)
	}
	w.Operations = []api.Operation{o}
	w.Events = append(w.Events, api.Event{At: ago(start), Type: api.HappenedOperationStarted, OperationID: o.ID, VnfInstanceID: cluster, To: "PROCESSING", Message: "INSTANTIATE", By: "token tacker"})
	slices.SortStableFunc(w.Events, func(a, b api.Event) int { return a.At.Compare(b.At) })
	numbered(w.Events)
	return w
}
