package lifecycletest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// ManifestFile is the package file with the manifest that VolumesParameters names.
const ManifestFile = "Files/kubernetes/nfs-pv1.yaml"

// WithVolumes is the cluster with a PersistentVolume.
func WithVolumes(t *api.Topology) api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: VolumesParameters("10.10.0.0/24"), Topology: t}
}

// VolumesParameters are Parameters with a PersistentVolume.
func VolumesParameters(exportTo string) json.RawMessage {
	return json.RawMessage(strings.Replace(string(Parameters(exportTo)), `"script_path"`,
		fmt.Sprintf(`"pv_registration_params": [{"pv_manifest_file_path": %q, "nfs_server_cp": "storage_server_CP"}], "script_path"`, ManifestFile), 1))
}

// ManifestOf is a manifest of one PersistentVolume.
func ManifestOf(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], nfs: {server: 10.0.0.1, path: /volume/nfs/pv1}}\n", name)
}

// Registered is a world whose cluster has registered its PersistentVolume.
func Registered(t T) *World {
	t.Helper()
	w := New(t)
	w.register(WithVolumes(FullTopology()))
	return w
}

// register instantiates the cluster and has it register its PersistentVolume.
func (w *World) register(spec api.InstanceSpec) {
	w.Helper()
	w.Put(spec)
	w.Upload(ScriptFile, "#!/bin/sh\n")
	w.Upload(ManifestFile, ManifestOf("pv1"))
	op := w.Post(Request(api.Instantiate, api.PhaseEnd))
	w.Converge(MasterServer, WorkerServer, StorageServer)
	if got := w.Operation(op.ID); got.State != api.Processing {
		w.Fatalf("INSTANTIATE END is %s before the PersistentVolume can have been registered", got.State)
	}
	w.Converge(MasterServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		w.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

// KeepingParameters are VolumesParameters whose PersistentVolumes stay if the storage server is healed.
func KeepingParameters() json.RawMessage {
	return json.RawMessage(strings.Replace(string(VolumesParameters("10.10.0.0/24")), `"cinder_volume`, `"persistent_volumes_at_heal": "keep", "cinder_volume`, 1))
}

// Keeping is Registered with KeepingParameters, in a cloud.
func Keeping(t T) (*World, *Cloud) {
	t.Helper()
	w, c := InCloud(t)
	c.Stacks[StackOne] = FullTopology()
	w.register(api.InstanceSpec{AdditionalParams: KeepingParameters(), Topology: FullTopology()})
	return w, c
}

// Section is what the document of a node says of PersistentVolumes, nil for nothing.
func (w *World) Section(nodeID string) *api.PersistentVolumesSection {
	w.Helper()
	return w.Document(nodeID).PersistentVolumes
}

// WantSection wants the document of the node to say this of PersistentVolumes, "" for nothing.
func (w *World) WantSection(nodeID string, state api.PersistentVolumesSectionState) {
	w.Helper()
	s := w.Section(nodeID)
	if s == nil && state == "" || s != nil && s.State == state {
		return
	}
	w.Fatalf("the section of %s is %+v, want %q", nodeID, s, state)
}

// StorageDocuments are the nodes whose documents name volumes. A node that the topology lacks keeps
// its last document.
func (w *World) StorageDocuments() (ids []string) {
	w.Helper()
	var nodes []store.Node
	w.Must(w.Store.View(func(tx *store.Tx) (err error) { nodes, err = tx.Nodes().All(); return err }))
	for _, n := range nodes {
		config, err := reconcile.Document(w.Store, n)
		w.Must(err)
		if config.Storage != nil {
			ids = append(ids, n.ID)
		}
	}
	return ids
}
