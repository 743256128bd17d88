package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The specification's instantiate body, word for word, for a stack that has its
// storage server only: from the hooks of Tacker to a node that has its document.
func TestTheSpecificationsSampleReachesTheStorageServer(t *testing.T) {
	w := lifecycletest.New(t)
	sample := w.Verbatim("persistent-volumes.json")
	for _, path := range w.Put(sample).MissingFiles {
		if path == lifecycletest.ScriptFile {
			w.Upload(path, "#!/bin/sh\n")
			continue
		}
		n := strings.TrimSuffix(path[strings.LastIndex(path, "pv"):], ".yaml")
		w.Upload(path, fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {capacity: {storage: 1Gi}, "+
			"accessModes: [ReadWriteMany], nfs: {server: 10.10.0.4, path: /volume/nfs/%s}}\n", n, n))
	}
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	end := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology, end.Partial = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage")), true
	op := w.Post(end)
	config := w.Document(lifecycletest.StorageServer)
	w.WantFirst(config, api.RoleStorage)
	export := func(n int) api.StorageExport {
		return api.StorageExport{Directory: fmt.Sprintf("/volume/nfs/pv%d", n), Client: "10.10.0.0/24",
			Options: []string{"rw", "sync", "no_subtree_check", "insecure", "all_squash"}}
	}
	proxy := &api.ProxySection{HTTP: "http://user1:password1@host1:port1", HTTPS: "https://user2:password2@host2:port2",
		NoProxy: "192.168.246.0/24,10.0.0.1,10.10.0.0/24"}
	if diff := cmp.Diff(proxy, config.Proxy); diff != "" {
		t.Errorf("proxy of the storage server (-want +got):\n%s", diff)
	}
	storage := &api.StorageSection{
		Volumes: []api.StorageVolume{{VolumeID: lifecycletest.Volume, SizeBytes: 1 << 30, MountPath: "/volume",
			Filesystem: api.Ext4, FilesystemUUID: api.FilesystemUUID(lifecycletest.Volume)}},
		Exports: []api.StorageExport{export(1), export(2), export(3)},
	}
	if diff := cmp.Diff(storage, config.Storage); diff != "" {
		t.Errorf("storage of the storage server (-want +got):\n%s", diff)
	}
	w.Converge(lifecycletest.StorageServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}
