package packagefile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTwoManifestsMayNotRegisterOneVolume(t *testing.T) {
	w := lcmtest.New(t)
	withPVs := lcmtest.Spec(lcmtest.FullTopology())
	withPVs.AdditionalParams = []byte(strings.Replace(string(withPVs.AdditionalParams), `"storage_server": {`,
		`"pv_registration_params": [{"pv_manifest_file_path": "pv1.yaml", "nfs_server_cp": "storage_server_CP"},
		{"pv_manifest_file_path": "pv2.yaml", "nfs_server_cp": "storage_server_CP"}], "storage_server": {`, 1))
	w.Put(withPVs)
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	const manifest = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv1}\n" +
		"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], nfs: {server: 0.0.0.0, path: /volume/nfs/pv1}}\n"
	w.Upload("pv1.yaml", manifest)
	w.Upload("pv2.yaml", manifest)
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, "/pv_registration_params/1/pv_manifest_file_path", `PersistentVolume "pv1"`)
	w.Upload("pv2.yaml", strings.Replace(manifest, "name: pv1", "name: pv2", 1))
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
}

func TestOtherContentOfAManifestReachesTheMaster(t *testing.T) {
	w := lcmtest.Registered(t)
	w.Clock.Advance(time.Second)
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv2"))
	if s := w.Section(lcmtest.MasterServer); s == nil || len(s.Manifests) != 1 || !strings.Contains(string(s.Manifests[0]), `"name":"pv2"`) {
		t.Fatalf("after another upload the section is %+v", s)
	}
	if n := w.Node(lcmtest.MasterServer); n.Ready {
		t.Error("the master is ready before it has registered the other volume")
	}
	w.Clock.Advance(time.Second)
	w.Upload(lcmtest.ManifestFile, "no manifest")
	if n := w.Node(lcmtest.MasterServer); w.Section(lcmtest.MasterServer) != nil || len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing {
		t.Errorf("after a faulty upload: %+v", n)
	}
}

func TestAManifestMayComeBeforeTheParametersThatNameIt(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Upload(lcmtest.ManifestFile, lcmtest.ManifestOf("pv1"))
	w.Converge(lcmtest.StorageServer)
	w.Put(lcmtest.WithVolumes(nil))
	if s := w.Section(lcmtest.MasterServer); s == nil || len(s.Manifests) != 1 {
		t.Errorf("the section is %+v", s)
	}
}

// A store that an older controller wrote has validated files without their manifests.
func TestManifestsOfAnOlderStoreAreReadAtTheStart(t *testing.T) {
	w := lcmtest.Registered(t)
	before := w.Node(lcmtest.MasterServer)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		for _, path := range []string{lcmtest.ScriptFile, lcmtest.ManifestFile} {
			f, _, err := tx.Files().Get(store.FileKey(lcmtest.InstanceID, path))
			w.Must(err)
			f.ValidatedFor, f.Manifests = strings.Repeat("a", 32), nil
			w.Must(tx.Files().Put(store.FileKey(lcmtest.InstanceID, path), f))
		}
		return nil
	}))
	w.Restart()
	if after := w.Node(lcmtest.MasterServer); after.Generation != before.Generation || after.Digest != before.Digest || !after.Ready {
		t.Errorf("after the restart %+v, before it %+v", after, before)
	}
}
