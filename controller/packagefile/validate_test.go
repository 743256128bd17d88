package packagefile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

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
