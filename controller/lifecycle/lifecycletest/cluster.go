package lifecycletest

import (
	"encoding/json"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The servers and volumes of the cluster that most tests begin with.
var (
	StorageServer = UUID(1, 1)
	MasterServer  = UUID(2, 1)
	WorkerServer  = UUID(3, 1)
	Volume        = UUID(9, 1)
)

// ScriptFile is the package file that the parameters of the cluster name.
const ScriptFile = "Scripts/install_k8s_cluster.sh"

// Parameters is the cluster of the specification's sample, as small as it can be.
func Parameters(exportTo string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"k8s_cluster_installation_param": {
  "script_path": %q,
  "master_node": {"aspect_id": "master_instance", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1",
    "password": "s3cr3t", "cluster_cp_name": "masterNode_CP1"},
  "worker_node": {"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2"},
  "storage_server": {"ssh_cp_name": "storage_server_CP",
    "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
    "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": %q}]}}}`, ScriptFile, exportTo))
}

// Spec is the cluster with this topology, nil for none.
func Spec(t *api.Topology) api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: Parameters("10.10.0.0/24"), Topology: t}
}

// RegistrySpec is a private registry, as small as it can be.
func RegistrySpec() api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: json.RawMessage(`{"private_registry_installation_param": {"ssh_cp_name": "CP1"}}`)}
}

// TopologyOf is a topology of these servers, each made by Server.
func TopologyOf(servers ...api.Server) *api.Topology {
	return &api.Topology{
		StackID: StackOne, StackStatus: "CREATE_COMPLETE", Servers: servers,
		Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: Volume, SizeBytes: 1 << 30}},
	}
}

// FullTopology is a topology of a storage server, a master and a worker.
func FullTopology() *api.Topology {
	return TopologyOf(Server(StorageServer, "storage"), Server(MasterServer, "master"), Server(WorkerServer, "worker"))
}

// Server is a server of a role. Its VNFC instance is "vnfc-" and its id.
func Server(id, role string) api.Server {
	s := api.Server{ID: id, Name: role, VnfcInstanceID: "vnfc-" + id}
	point := map[string]string{"storage": "storage_server_CP", "master": "masterNode_CP1", "worker": "workerNode_CP2"}[role]
	s.ConnectionPoints = []api.ConnectionPoint{{Name: point, Addresses: []string{"10.10.0.5"}}}
	switch role {
	case "storage":
		s.VolumeIds = []string{Volume}
	default:
		s.AspectID = role + "_instance"
	}
	return s
}

// Instantiated is a world with an instance whose three servers are ready.
func Instantiated(t T) *World {
	t.Helper()
	w := New(t)
	w.Put(Spec(FullTopology()))
	w.Upload(ScriptFile, "#!/bin/sh\n")
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	w.Converge(StorageServer, MasterServer, WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w
}

// MovedTopology is FullTopology with the storage server at another address.
func MovedTopology(address string) *api.Topology {
	t := FullTopology()
	t.Servers[0].ConnectionPoints[0].Addresses = []string{address}
	return t
}

// ForeignDisk is an INSTANTIATE END all of whose servers are ready but the storage server, whose
// disk holds data of others.
func ForeignDisk(t T, s api.InstanceSpec) (*World, api.Operation) {
	t.Helper()
	w := New(t)
	w.Put(s)
	w.Upload(ScriptFile, "#!/bin/sh\n")
	w.Upload(ManifestFile, ManifestOf("pv1"))
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	w.Converge(MasterServer, WorkerServer)
	w.Must(w.Enroll(StorageServer))
	w.ReportFailed(StorageServer, api.ConditionVolumesMounted, api.ReasonForeignData, "found xfs")
	return w, op
}

// AddressesOf are all addresses of a server.
func AddressesOf(s api.Server) (list []string) {
	for _, p := range s.ConnectionPoints {
		list = append(append(list, p.Addresses...), p.FloatingAddresses...)
	}
	return list
}

// HealedTopology is FullTopology once its storage server was replaced, with its volume.
func HealedTopology(replacement string) *api.Topology {
	t := TopologyOf(Server(replacement, "storage"), Server(MasterServer, "master"), Server(WorkerServer, "worker"))
	t.StackStatus = "UPDATE_COMPLETE"
	return t
}

// WithAddresses is the server at these two addresses.
func WithAddresses(s api.Server, first, second string) api.Server {
	s.ConnectionPoints = []api.ConnectionPoint{{Name: s.ConnectionPoints[0].Name, Addresses: []string{first}}, {Name: "other_CP", Addresses: []string{second}}}
	return s
}

// SecondWorker is a worker that FullTopology lacks.
var SecondWorker = UUID(3, 2)

// NumberedSpec is the cluster with other parameters for each number.
func NumberedSpec(to int) api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: Parameters(fmt.Sprintf("10.%d.0.0/24", to))}
}

// GrownTopology is FullTopology with SecondWorker.
func GrownTopology() *api.Topology {
	t := FullTopology()
	t.Servers = append(t.Servers, Server(SecondWorker, "worker"))
	return t
}
