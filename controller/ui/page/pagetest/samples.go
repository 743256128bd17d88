// Package pagetest is objects for looking at the pages and for testing them: an empty controller,
// a first cluster, a Kubernetes cluster that is being made, a large fleet, and one on which everything is
// broken.
package pagetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Now is the time of all samples.
var Now = time.Date(2026, 11, 25, 14, 30, 12, 0, time.UTC)

// World is the objects of a controller.
type World struct {
	Instances  []api.Instance
	Nodes      []api.Node
	Operations []api.Operation
	Volumes    []api.Volume
	Rollout    api.AgentRollout
	Replicas   []api.Replica
	Events     []api.Event
}

// Worlds are the samples by name.
func Worlds() map[string]World {
	return map[string]World{"empty": Empty(), "first": First(), "cluster": Cluster(), "fleet": Fleet(2000), "broken": Broken()}
}

// Empty is a controller that nobody has used yet.
func Empty() World {
	return World{Rollout: api.AgentRollout{State: api.RolloutIdle, Mode: api.UpgradeManually, Version: "v1.0.0", Carried: carried(), MaxUnavailable: 5}}
}

func carried() []api.CarriedAgent {
	return []api.CarriedAgent{{Architecture: "amd64", Version: "v1.0.0", SizeBytes: 21 << 20, Sha256: digest(1)}}
}

func digest(n int) string { return fmt.Sprintf("%064x", 0x9e3779b97f4a7c15*uint64(n+1)) }

// id is a UUID.
func id(group, n int) string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(group*0x9e3779b1+n*0x85ebca6b), n&0xffff, n&0xfff, group&0xfff, uint64(n)*0x27d4eb2f165667c5&0xffffffffffff)
}

func ago(d time.Duration) time.Time { return Now.Add(-d) }

func at(d time.Duration) *time.Time {
	t := ago(d)
	return &t
}

func condition(kind string, status api.ConditionStatus, reason api.Reason, since time.Duration, message string) api.Condition {
	return api.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(since), ObservedGeneration: 3}
}

// good is what each condition says when all is well.
var good = map[string]api.Reason{
	api.ConditionReady: api.ReasonReady, api.ConditionVolumesMounted: api.ReasonMounted, api.ConditionExportsServed: api.ReasonServed,
	api.ConditionNFSClientInstalled: api.ReasonInstalled, api.ConditionRegistryRunning: api.ReasonRunning, api.ConditionRegistriesConnected: api.ReasonConnected,
	api.ConditionPersistentVolumesRegistered: api.ReasonRegistered, api.ConditionClusterMember: api.ReasonJoined,
	api.ConditionEngineReady: api.ReasonEngineRunning, api.ConditionKubernetesInstalled: api.ReasonInstalled,
	api.ConditionControlPlaneHealthy: api.ReasonHealthy, api.ConditionPodNetworkReady: api.ReasonNetworkReady,
	api.ConditionClusterMembersCurrent: api.ReasonMembersCurrent, api.ConditionClusterMembersLeft: api.ReasonMembersLeft, api.ConditionClusterAccessReady: api.ReasonAccessGranted,
}

// ofRole are the conditions that a node of a role reports.
var ofRole = map[api.Role][]string{
	api.RoleStorage:  {api.ConditionVolumesMounted, api.ConditionExportsServed},
	api.RoleMaster:   {api.ConditionNFSClientInstalled, api.ConditionRegistriesConnected, api.ConditionPersistentVolumesRegistered, api.ConditionClusterMember},
	api.RoleWorker:   {api.ConditionNFSClientInstalled, api.ConditionRegistriesConnected, api.ConditionClusterMember},
	api.RoleRegistry: {api.ConditionVolumesMounted, api.ConditionRegistryRunning},
}

// node is one that is Ready.
func node(instance string, nodeID, name string, role api.Role, address string) api.Node {
	n := api.Node{ID: nodeID, Name: name, Role: role, VnfInstanceID: instance, State: api.NodeEnrolled, Ready: true, Addresses: []string{address},
		Attestation: api.AttestedByNonce, EnrolledAt: at(26 * time.Hour), LastSeenAt: at(14 * time.Second), CertificateSerial: fmt.Sprintf("4f:%.8s", nodeID),
		CertificateNotAfter: at(-29 * 24 * time.Hour), Generation: 3, Digest: digest(3), Withheld: []api.Withheld{},
		Status: &api.NodeStatus{ObservedGeneration: 3, ObservedDigest: digest(3), AppliedGeneration: 3, AppliedDigest: digest(3), Epoch: 1,
			Facts:        api.Facts{AgentVersion: "v1.0.0", Architecture: "amd64", Hostname: name, KernelVersion: "6.1.0-28-cloud-amd64", OSImage: "Debian GNU/Linux 12 (bookworm)"},
			AgentUpgrade: &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: api.UpgradeUpToDate, Version: "v1.0.0"}}}
	for i, kind := range ofRole[role] {
		n.Status.Conditions = append(n.Status.Conditions, condition(kind, api.ConditionTrue, good[kind], 26*time.Hour-time.Duration(i+1)*7*time.Second, ""))
	}
	n.Status.Conditions = append(n.Status.Conditions, condition(api.ConditionReady, api.ConditionTrue, api.ReasonReady, 25*time.Hour, ""))
	return n
}

// set changes a condition of a node, and Ready with it.
func set(n *api.Node, c api.Condition) {
	replace := func(c api.Condition) {
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == c.Type {
				n.Status.Conditions[i] = c
				return
			}
		}
		n.Status.Conditions = append([]api.Condition{c}, n.Status.Conditions...)
	}
	replace(c)
	if c.Status != api.ConditionTrue {
		n.Ready = false
		replace(condition(api.ConditionReady, api.ConditionFalse, api.ReasonNotReady, 2*time.Minute, c.Type+" is not True"))
	}
}

const clusterParams = `{"k8s_cluster_installation_param": {"script_path": "Scripts/install_k8s_cluster.sh", "vim_name": "kubernetes_vim",
 "master_node": {"aspect_id": "master_instance", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "username": "ubuntu", "password": "[redacted]", "pod_cidr": "192.168.3.0/24", "cluster_cidr": "10.199.187.0/24", "cluster_cp_name": "masterNode_CP1"},
 "worker_node": {"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2", "username": "ubuntu", "password": "[redacted]"},
 "private_registry_connection_info": [{"connection_type": "0", "server": "192.168.0.10:5000"}, {"connection_type": "1", "server": "registry.example.com", "username": "user01", "password": "[redacted]", "certificate_path": "Files/registries/ca.crt", "hosts_string": "192.168.0.20 registry.example.com"}]}}`

const registryParams = `{"private_registry_installation_param": {"ssh_cp_name": "CP1", "ssh_username": "ubuntu", "ssh_password": "[redacted]", "image_path": "Files/images/private_registry.tar", "port_no": 5000, "volume_resource_id": "registry_volume", "mount_to": "/volume"}}`

func instance(instanceID string, kind api.VNFKind, nodes []api.Node) api.Instance {
	params := clusterParams
	if kind == api.PrivateRegistry {
		params = registryParams
	}
	i := api.Instance{ID: instanceID, Kind: kind, State: api.Instantiated, DesiredVersion: 4, CreatedAt: ago(27 * time.Hour), UpdatedAt: ago(26 * time.Hour),
		StackID: id(77, len(nodes)+int(instanceID[0])), AdditionalParams: json.RawMessage(params), MissingFiles: []string{}, Nodes: []string{},
		Stack:    &api.StackObservation{Name: "vnflcm_" + instanceID[:8], Status: "CREATE_COMPLETE", StatusReason: "Stack CREATE completed successfully", ObservedAt: at(26 * time.Hour), Source: api.ObservedByHeat},
		Files:    []api.PackageFile{{Path: "Scripts/install_k8s_cluster.sh", SizeBytes: 18342, Sha256: digest(8)}, {Path: "Files/registries/ca.crt", SizeBytes: 1204, Sha256: digest(9)}},
		Topology: &api.Topology{}, Warnings: []api.Fault{}}
	for n, of := range nodes {
		i.Nodes = append(i.Nodes, of.ID)
		i.Topology.Servers = append(i.Topology.Servers, api.Server{ID: of.ID, Name: of.Name, VnfcInstanceID: id(55, n), AvailabilityZone: "az-1", HypervisorHostname: fmt.Sprintf("compute-%02d", n%24)})
	}
	return i
}

func event(sequence int64, d time.Duration, kind api.EventType, n api.Node, by string) api.Event {
	e := api.Event{Sequence: sequence, At: ago(d), Type: kind, NodeID: n.ID, NodeName: n.Name, VnfInstanceID: n.VnfInstanceID, By: by}
	if by == "" {
		e.By = "node " + n.ID
	}
	return e
}

// numbered gives events their sequences.
func numbered(events []api.Event) []api.Event {
	for i := range events {
		events[i].Sequence = int64(i + 1)
	}
	return events
}

// replica is a controller that shares its store with others.
func replica(id string, state api.ReplicaState) api.Replica {
	r := api.Replica{ID: id, State: state, URL: "https://" + id + ".example:8444", Version: "v1.0.0", Schema: 9}
	switch lag := 0.4; state {
	case api.ReplicaLeader:
		r.Term, r.LeaderSince = 48113, at(3*time.Hour)
	case api.ReplicaFollower:
		r.LagSeconds = &lag
	case api.ReplicaStandby:
		r.URL = ""
	}
	return r
}
