package site

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Storage is a VNF instance that consists of one storage server.
type Storage struct {
	Instance string
	Server   api.Server
	Volumes  []Volume
	// Exports are directories exported to the lab's network.
	Exports []string
	// Options are the options of exported directories that have others than the default.
	Options map[string][]string
	// Others are further servers of the topology: masters and workers by the name of
	// their connection point, masterNode_CP1 or workerNode_CP2, else of no role.
	Others []api.Server
	// Package is the folder of the VNF package; empty if no operation needs one.
	Package string
}

// Volume is a disk of the storage server and what the instance says of it.
type Volume struct {
	Name    string // volume_resource_id
	Disk    lab.Disk
	MountTo string
	// SizeBytes is what the topology says.
	SizeBytes int64
}

// Announce tells the controller of the instance, whose server has or will have
// this address, and returns the user_data for it. Requests are written into dir.
func (s *Site) Announce(ctx context.Context, st *Storage, address netip.Addr, dir string) (userData []byte, err error) {
	st.Server.ConnectionPoints = []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{address.String()}}}
	request, topology := filepath.Join(dir, "request.json"), filepath.Join(dir, "topology.json")
	if err := errors.Join(writeJSON(request, st.Request()), writeJSON(topology, st.Topology())); err != nil {
		return nil, err
	}
	apply := []string{"apply", st.Instance, "-f", request, "--topology", topology}
	if st.Package != "" {
		apply = append(apply, "--package", st.Package)
	}
	if _, err := s.Hitchctl(ctx, apply...); err != nil {
		return nil, err
	}
	return s.Hitchctl(ctx, "render", "user-data", st.Instance)
}

// Operate ends an operation of the instance with the topology as it is now: its
// storage server, and no masters and workers. The instance has been announced.
func (s *Site) Operate(ctx context.Context, st *Storage, operation api.OperationType, dir string, flags ...string) error {
	topology := filepath.Join(dir, "topology.json")
	if err := writeJSON(topology, st.Topology()); err != nil {
		return err
	}
	_, err := s.Hitchctl(ctx, append([]string{"operate", st.Instance, string(operation), "--topology", topology, "--partial"}, flags...)...)
	return err
}

// Inhabit announces the instance on a machine that is there already and injects
// the agent into it.
func (s *Site) Inhabit(ctx context.Context, st *Storage, node lab.Node, dir string) error {
	userData, err := s.Announce(ctx, st, node.Address(), dir)
	if err != nil {
		return err
	}
	return Inject(ctx, node, userData)
}

// Topology is what the VNF manager says of the instance's stack.
func (st *Storage) Topology() api.Topology {
	t := api.Topology{Servers: append([]api.Server{st.Server}, st.Others...), StackStatus: "CREATE_COMPLETE"}
	for _, v := range st.Volumes {
		t.Volumes = append(t.Volumes, api.TopologyVolume{ResourceID: v.Name, ID: v.Disk.VolumeID, SizeBytes: v.SizeBytes})
	}
	return t
}

// Request is an InstantiateVnfRequest as the PersistentVolume spec has it, with
// what the specs require of masters and workers.
func (st *Storage) Request() map[string]any {
	role := func(cp string) map[string]any {
		return map[string]any{"ssh_cp_name": cp, "nic_cp_name": cp, "username": "ubuntu", "password": "ubuntu"}
	}
	master := role("masterNode_CP1")
	master["cluster_cp_name"] = "masterNode_CP1"
	storage := role("storage_server_CP")
	var volumes []map[string]string
	var exports []map[string]any
	for _, v := range st.Volumes {
		volumes = append(volumes, map[string]string{"volume_resource_id": v.Name, "mount_to": v.MountTo})
	}
	for _, dir := range st.Exports {
		export := map[string]any{"export_dir": dir, "export_to": lab.Subnet.String()}
		if options := st.Options[dir]; options != nil {
			export["export_options"] = options
		}
		exports = append(exports, export)
	}
	storage["cinder_volume_setup_params"], storage["nfs_server_setup_params"] = volumes, exports
	return map[string]any{"flavourId": "simple", "additionalParams": map[string]any{
		"k8s_cluster_installation_param": map[string]any{
			"script_path": "Scripts/install_k8s_cluster.sh",
			"master_node": master, "worker_node": role("workerNode_CP2"), "storage_server": storage,
		},
	}}
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
