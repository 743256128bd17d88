package instance_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
)

func TestAFileMayComeBeforeItsInstance(t *testing.T) {
	w := lcmtest.New(t)
	w.Upload(lcmtest.ScriptFile, "")
	if i := w.Put(lcmtest.Spec(lcmtest.FullTopology())); len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("files %+v, want the one there is with its fault", i.Files)
	}
}
