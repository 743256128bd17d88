package instance_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
)

func TestAFileMayComeBeforeItsInstance(t *testing.T) {
	w := lifecycletest.New(t)
	w.Upload(lifecycletest.ScriptFile, "")
	if i := w.Put(lifecycletest.Spec(lifecycletest.FullTopology())); len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("files %+v, want the one there is with its fault", i.Files)
	}
}
