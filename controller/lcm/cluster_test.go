package lcm_test

import (
	"encoding/json"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The servers and volumes of the cluster that most tests begin with.
var (
	storageServer = uuid(1, 1)
	masterServer  = uuid(2, 1)
	workerServer  = uuid(3, 1)
	volume        = uuid(9, 1)
)

const script = "Scripts/install_k8s_cluster.sh"

// parameters is the cluster of the specification's sample, as small as it can be.
func parameters(exportTo string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"k8s_cluster_installation_param": {
  "script_path": %q,
  "master_node": {"aspect_id": "master_instance", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1",
    "password": "s3cr3t", "cluster_cp_name": "masterNode_CP1"},
  "worker_node": {"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2"},
  "storage_server": {"ssh_cp_name": "storage_server_CP",
    "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
    "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": %q}]}}}`, script, exportTo))
}

func spec(t *api.Topology) api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: parameters("10.10.0.0/24"), Topology: t}
}

func registrySpec() api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: json.RawMessage(`{"private_registry_installation_param": {"ssh_cp_name": "CP1"}}`)}
}

// topologyOf is a topology of these servers, each made by server.
func topologyOf(servers ...api.Server) *api.Topology {
	return &api.Topology{
		StackID: stackOne, StackStatus: "CREATE_COMPLETE", Servers: servers,
		Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volume, SizeBytes: 1 << 30}},
	}
}

func full() *api.Topology {
	return topologyOf(server(storageServer, "storage"), server(masterServer, "master"), server(workerServer, "worker"))
}

// server is a server of a role. Its VNFC instance is "vnfc-" and its id.
func server(id, role string) api.Server {
	s := api.Server{ID: id, Name: role, VnfcInstanceID: "vnfc-" + id}
	point := map[string]string{"storage": "storage_server_CP", "master": "masterNode_CP1", "worker": "workerNode_CP2"}[role]
	s.ConnectionPoints = []api.ConnectionPoint{{Name: point, Addresses: []string{"10.10.0.5"}}}
	switch role {
	case "storage":
		s.VolumeIds = []string{volume}
	default:
		s.AspectID = role + "_instance"
	}
	return s
}

func request(o api.OperationType, phase api.OperationPhase) api.OperationRequest {
	return api.OperationRequest{Operation: o, Phase: phase}
}

// scale is a request to scale the workers, with the topology after it.
func scale(kind api.ScaleType, phase api.OperationPhase, t *api.Topology) api.OperationRequest {
	return api.OperationRequest{Operation: api.Scale, Phase: phase, Type: kind, AspectID: "worker_instance", Topology: t}
}

// heal is a request to heal the servers, the entire VNF for none.
func heal(phase api.OperationPhase, t *api.Topology, servers ...string) api.OperationRequest {
	r := api.OperationRequest{Operation: api.Heal, Phase: phase, Topology: t}
	for _, id := range servers {
		r.VnfcInstanceIds = append(r.VnfcInstanceIds, "vnfc-"+id)
	}
	return r
}

// instantiated is a world with an instance whose three servers are ready.
func instantiated(t tester) *world {
	t.Helper()
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer, masterServer, workerServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w
}
