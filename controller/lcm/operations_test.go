package lcm_test

import (
	"strings"
	"testing"

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

func TestAFileWhoseCheckWasCutOffBlocksUntilItIsChecked(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	key := store.FileKey(lcmtest.InstanceID, lcmtest.ScriptFile)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		f, _, err := tx.Files().Get(key)
		w.Must(err)
		f.ValidatedFor = "" // what an upload leaves that dies before the check
		return tx.Files().Put(key, f)
	}))
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, "still being checked")
	w.Restart()
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
}
