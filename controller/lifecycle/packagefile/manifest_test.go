package packagefile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTwoManifestsMayNotRegisterOneVolume(t *testing.T) {
	w := lifecycletest.New(t)
	withPVs := lifecycletest.Spec(lifecycletest.FullTopology())
	withPVs.AdditionalParams = []byte(strings.Replace(string(withPVs.AdditionalParams), `"storage_server": {`,
		`"pv_registration_params": [{"pv_manifest_file_path": "pv1.yaml", "nfs_server_cp": "storage_server_CP"},
		{"pv_manifest_file_path": "pv2.yaml", "nfs_server_cp": "storage_server_CP"}], "storage_server": {`, 1))
	w.Put(withPVs)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	const manifest = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv1}\n" +
		"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], nfs: {server: 0.0.0.0, path: /volume/nfs/pv1}}\n"
	w.Upload("pv1.yaml", manifest)
	w.Upload("pv2.yaml", manifest)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, "/pv_registration_params/1/pv_manifest_file_path", `PersistentVolume "pv1"`)
	w.Upload("pv2.yaml", strings.Replace(manifest, "name: pv1", "name: pv2", 1))
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
}

func TestOtherContentOfAManifestReachesTheMaster(t *testing.T) {
	w := lifecycletest.Registered(t)
	w.Clock.Advance(time.Second)
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv2"))
	if s := w.Section(lifecycletest.MasterServer); s == nil || len(s.Manifests) != 1 || !strings.Contains(string(s.Manifests[0]), `"name":"pv2"`) {
		t.Fatalf("after another upload the section is %+v", s)
	}
	if n := w.Node(lifecycletest.MasterServer); n.Ready {
		t.Error("the master is ready before it has registered the other volume")
	}
	w.Clock.Advance(time.Second)
	w.Upload(lifecycletest.ManifestFile, "no manifest")
	if n := w.Node(lifecycletest.MasterServer); w.Section(lifecycletest.MasterServer) != nil || len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing {
		t.Errorf("after a faulty upload: %+v", n)
	}
}

func TestAManifestMayComeBeforeTheParametersThatNameIt(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	w.Converge(lifecycletest.StorageServer)
	w.Put(lifecycletest.WithVolumes(nil))
	if s := w.Section(lifecycletest.MasterServer); s == nil || len(s.Manifests) != 1 {
		t.Errorf("the section is %+v", s)
	}
}

// A store that an older controller wrote has validated files without their manifests.
func TestManifestsOfAnOlderStoreAreReadAtTheStart(t *testing.T) {
	w := lifecycletest.Registered(t)
	before := w.Node(lifecycletest.MasterServer)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		for _, path := range []string{lifecycletest.ScriptFile, lifecycletest.ManifestFile} {
			f, _, err := tx.Files().Get(store.FileKey(lifecycletest.InstanceID, path))
			w.Must(err)
			f.ValidatedFor, f.Manifests = strings.Repeat("a", 32), nil
			w.Must(tx.Files().Put(store.FileKey(lifecycletest.InstanceID, path), f))
		}
		return nil
	}))
	w.Restart()
	if after := w.Node(lifecycletest.MasterServer); after.Generation != before.Generation || after.Digest != before.Digest || !after.Ready {
		t.Errorf("after the restart %+v, before it %+v", after, before)
	}
}
