package packagefile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAFileWhoseCheckWasCutOffBlocksUntilItIsChecked(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	key := store.FileKey(lifecycletest.InstanceID, lifecycletest.ScriptFile)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		f, _, err := tx.Files().Get(key)
		w.Must(err)
		f.ValidatedFor = "" // what an upload leaves that dies before the check
		return tx.Files().Put(key, f)
	}))
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, "still being checked")
	w.Restart()
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
}
