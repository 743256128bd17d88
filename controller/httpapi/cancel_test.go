package httpapi_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

func TestACancelledOperationSaysWhoCancelledIt(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	operations := "/v1/vnf_instances/" + instanceID + "/operations"
	for i, c := range []struct {
		who    string
		cancel func(path string) answer
	}{
		{"token operator", func(path string) answer { return w.as(w.operator, "POST", path, "") }},
		{fmt.Sprintf("uid %d of this machine", os.Geteuid()), func(path string) answer { return w.call(w.local(), "POST", path, "") }},
	} {
		w.ok(w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true}`), http.StatusAccepted, nil)
		path := fmt.Sprintf("%s/%d", operations, i+1)
		held := w.hold(w.client, path+"?wait=30s", "Authorization: Bearer "+w.viewer)
		if a := w.as(w.viewer, "POST", path+"/cancel", ""); a.status != http.StatusForbidden {
			t.Errorf("a viewer: %d %s", a.status, a.body)
		}
		var cancelled, waited wire.Operation
		w.ok(c.cancel(path+"/cancel"), http.StatusOK, &cancelled)
		w.ok(soon(t, held), http.StatusOK, &waited)
		for _, op := range []wire.Operation{cancelled, waited} {
			if op.State != wire.Failed || op.Error.Type != wire.ProblemCancelled || op.CancelledBy != c.who {
				t.Errorf("the operation is %+v, want it cancelled by %s", op, c.who)
			}
		}
		if a := w.as(w.operator, "POST", path+"/cancel", ""); a.status != http.StatusConflict || a.problem.Type != wire.ProblemConflict {
			t.Errorf("again: %d %s", a.status, a.body)
		}
	}
	if a := w.as(w.operator, "POST", operations+"/7/cancel", ""); a.status != http.StatusNotFound {
		t.Errorf("one that never was: %d %s", a.status, a.body)
	}
}

func TestAnAnswerSaysWhetherAnOperationWasJoined(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	operations := "/v1/vnf_instances/" + instanceID + "/operations"
	for _, joined := range []bool{false, true} {
		var op wire.Operation
		w.ok(w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true, "idempotencyKey": "k"}`), http.StatusAccepted, &op)
		if op.Sequence != 1 || op.Joined != joined {
			t.Errorf("joined %v: %+v", joined, op)
		}
	}
}
