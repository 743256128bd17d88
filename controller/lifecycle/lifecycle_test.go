package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestOperationsSurviveARestart(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.MasterServer)
	w.Restart()
	if diff := cmp.Diff(api.Processing, w.Operation(op.ID).State); diff != "" {
		t.Fatal(diff)
	}
	w.Converge(lifecycletest.StorageServer)
	w.Restart()
	w.Converge(lifecycletest.WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed {
		t.Errorf("the operation is %+v, want COMPLETED", got)
	}
	scaled := lifecycletest.FullTopology()
	scaled.Servers = append(scaled.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	late := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, scaled))
	w.Clock.Advance(time.Hour) // the controller was away when the deadline passed
	w.Restart()
	if got := w.Operation(late.ID); got.State != api.Failed || !strings.Contains(got.Error.Detail, "NotEnrolled") {
		t.Errorf("the operation is %+v, want FAILED after its deadline", got)
	}
}
