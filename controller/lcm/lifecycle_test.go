package lcm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestOperationsSurviveARestart(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lcmtest.MasterServer)
	w.Restart()
	if diff := cmp.Diff(api.Processing, w.Operation(op.ID).State); diff != "" {
		t.Fatal(diff)
	}
	w.Converge(lcmtest.StorageServer)
	w.Restart()
	w.Converge(lcmtest.WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("the operation is %+v, want COMPLETED", got)
	}
	scaled := lcmtest.FullTopology()
	scaled.Servers = append(scaled.Servers, lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
	late := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, scaled))
	w.Clock.Advance(time.Hour) // the controller was away when the deadline passed
	w.Restart()
	if got := w.Operation(late.ID); got.State != api.Failed || !strings.Contains(got.Error.Detail, "NotEnrolled") {
		t.Errorf("the operation is %+v, want FAILED after its deadline", got)
	}
}
