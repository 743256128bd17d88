package lifecycletest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// OtherMaster and LastMaster are the masters besides MasterServer. It speaks for the cluster,
// because its id is the lowest.
var (
	OtherMaster = UUID(2, 2)
	LastMaster  = UUID(2, 3)
)

// ClusterOf is the stack of the storage server and these others.
func ClusterOf(ids ...string) *api.Topology {
	t := TopologyOf(Server(StorageServer, "storage"))
	for _, id := range ids {
		role := "worker"
		if strings.HasPrefix(id, MasterServer[:8]) {
			role = "master"
		}
		t.Servers = append(t.Servers, Server(id, role))
	}
	return t
}

func wholeCluster() *api.Topology {
	return ClusterOf(MasterServer, OtherMaster, LastMaster, WorkerServer, SecondWorker)
}

// Clustered is a world whose masters and workers are members of one cluster.
func Clustered(t T) *World {
	t.Helper()
	w := New(t)
	w.Put(AsMembers(api.InstanceSpec{AdditionalParams: VolumesParameters("10.10.0.0/24"), Topology: wholeCluster()}))
	w.Upload(ScriptFile, "#!/bin/sh\n")
	w.Upload(ManifestFile, ManifestOf("pv1"))
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	for range 3 { // the facts and what the storage server serves reach the owner
		w.Converge(w.Instance().Nodes...)
	}
	w.WantState(op, api.Completed)
	if list := w.AskedToLeave(MasterServer); list == nil || len(list) > 0 {
		w.Fatalf("the owner is asked to let %v leave, want an empty list", list)
	}
	return w
}

// AskedToLeave are the servers that the node's document asks it to let leave the cluster, nil
// if it has no such section.
func (w *World) AskedToLeave(nodeID string) []string {
	w.Helper()
	section := w.Document(nodeID).ClusterDepartures
	if section == nil {
		return nil
	}
	ids := []string{}
	for _, m := range section.Members {
		ids = append(ids, m.ServerID)
	}
	return ids
}

// WantAskedToLeave wants the node's document to ask for these.
func (w *World) WantAskedToLeave(nodeID string, want ...string) {
	w.Helper()
	if got := w.AskedToLeave(nodeID); got == nil || !slices.Equal(got, want) {
		w.Fatalf("%s is asked to let %v leave, want %v", nodeID, got, want)
	}
}

const (
	// CAHash is the hash of the cluster's CA in ClusterFacts.
	CAHash = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	// VIMToken is the VIM's token in ClusterFacts.
	VIMToken = "vim-t0ken.of-the.cluster"
)

// WithMembers is the cluster with cluster_members.
func WithMembers(t *api.Topology) api.InstanceSpec {
	return api.InstanceSpec{Topology: t,
		AdditionalParams: json.RawMessage(strings.Replace(string(Parameters("10.10.0.0/24")), `"script_path"`, `"cluster_members": {}, "script_path"`, 1))}
}

// ClusterFacts are what the master that speaks for the cluster reports of it.
func ClusterFacts() *api.ClusterFacts {
	expires := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	return &api.ClusterFacts{CACertificateHash: CAHash, CACertificate: "PEM of the CA", Token: VIMToken, TokenExpiresAt: &expires}
}

// ClusterAccess is how a VIM uses the cluster.
func (w *World) ClusterAccess() api.ClusterAccess {
	w.Helper()
	access, err := w.Lifecycle.Instances.ClusterAccess(w.Ctx, InstanceID)
	w.Must(err)
	return access
}

// Joined is an instance whose servers are all members of their cluster.
func Joined(t T, topology *api.Topology) *World {
	t.Helper()
	w := New(t)
	w.Put(WithMembers(topology))
	w.Upload(ScriptFile, "#!/bin/sh\n")
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	w.Converge(StorageServer, MasterServer) // the first one makes the cluster
	w.ReportCluster(MasterServer, ClusterFacts())
	for _, s := range topology.Servers {
		w.Converge(s.ID)
	}
	w.WantState(op, api.Completed)
	return w
}

// AsMembers asks for cluster_members besides.
func AsMembers(s api.InstanceSpec) api.InstanceSpec {
	s.AdditionalParams = json.RawMessage(strings.Replace(string(s.AdditionalParams), `"script_path"`, `"cluster_members": {}, "script_path"`, 1))
	return s
}

// WithKubernetes is the cluster that nodehitch makes, with a Pod network.
func WithKubernetes(t *api.Topology) api.InstanceSpec { return WithVersion(t, OldVersion) }

// Versions of Kubernetes.
const (
	OldVersion = "1.34.4" // of WithKubernetes
	NewVersion = "1.35.4" // to which it can be upgraded
)

// WithVersion is WithKubernetes of another version.
func WithVersion(t *api.Topology, version string) api.InstanceSpec {
	return api.InstanceSpec{Topology: t, AdditionalParams: json.RawMessage(strings.Replace(string(Parameters("10.10.0.0/24")), `"script_path"`,
		`"kubernetes": {"version": "`+version+`", "pod_network_manifest_path": "`+PodNetworkFile+`"}, "script_path"`, 1))}
}

// Made is an instance whose servers are all members of the cluster that nodehitch has made.
func Made(t T, topology *api.Topology) *World {
	t.Helper()
	w := New(t)
	w.Put(WithKubernetes(topology))
	w.Upload(PodNetworkFile, PodNetwork)
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	for range 3 { // the cluster's facts and what the storage server serves reach the others
		w.Converge(w.Instance().Nodes...)
	}
	w.WantState(op, api.Completed)
	return w
}

// Versions are the versions of Kubernetes in the documents of these nodes, "-" for none.
func (w *World) Versions(ids ...string) string {
	w.Helper()
	var list []string
	for _, id := range ids {
		version := "-"
		if k := w.Document(id).Kubernetes; k != nil {
			version = k.Version
		}
		list = append(list, version)
	}
	return strings.Join(list, " ")
}

// PodNetworkFile is the package file of WithKubernetes, PodNetwork its content.
const (
	PodNetworkFile = "Files/kubernetes/network.yaml"
	PodNetwork     = "apiVersion: v1\nkind: Namespace\nmetadata: {name: network}\n"
)
