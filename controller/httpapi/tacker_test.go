package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// An instantiation as Tacker's hooks make it, which fails, is tried again, and is rolled back.
// The token may do nothing else.
func TestTheCallsOfTackersHooks(t *testing.T) {
	w := newWorld(t)
	const instance, occurrence = "/v1/vnf_instances/" + instanceID, "0f6f6e5c-7c2b-4c5e-9a3b-1d2e3f405162"
	path := func(sequence int64) string { return fmt.Sprintf("%s/operations/%d", instance, sequence) }
	post := func(operation, phase string) (op wire.Operation) {
		t.Helper()
		w.ok(w.as(w.tacker, "POST", instance+"/operations", fmt.Sprintf(
			`{"operation": %[1]q, "phase": %[2]q, "deadlineSeconds": 60, "idempotencyKey": "%[3]s:%[1]s:%[2]s"}`, operation, phase, occurrence)), http.StatusAccepted, &op)
		return op
	}
	wants := func(what string, op wire.Operation, sequence int64, state wire.OperationState, joined bool) {
		t.Helper()
		if op.Sequence != sequence || op.State != state || op.Joined != joined {
			t.Fatalf("%s: %+v, want operation %d, %s, joined: %v", what, op, sequence, state, joined)
		}
	}
	whole := strings.Replace(spec, `{"id": "`+serverID+`"`, `{"id": "`+strings.Replace(serverID, "3", "5", 1)+`", "name": "m", "aspectId": "master_instance"},
		{"id": "`+strings.Replace(serverID, "3", "6", 1)+`", "name": "w", "aspectId": "worker_instance"}, {"id": "`+serverID+`"`, 1)

	var made wire.Instance
	w.ok(w.as(w.tacker, "POST", instance+"/plan", whole), http.StatusOK, nil)
	w.ok(w.as(w.tacker, "PUT", instance, whole), http.StatusCreated, &made)
	for _, file := range made.MissingFiles {
		w.ok(w.as(w.tacker, "PUT", instance+"/files/"+file, "#!/bin/sh\n"), http.StatusCreated, nil)
	}
	wants("START", post("INSTANTIATE", "START"), 1, wire.Completed, false)
	w.ok(w.as(w.tacker, "GET", "/v1/trust", ""), http.StatusOK, nil)
	var join wire.JoinToken
	w.ok(w.as(w.tacker, "GET", instance+"/join_token", ""), http.StatusOK, &join)
	node := w.redeem(join, serverID)
	w.ok(w.as(w.tacker, "GET", "/v1/nodes/"+serverID, ""), http.StatusOK, nil)

	wants("END", post("INSTANTIATE", "END"), 2, wire.Processing, false)
	wants("END while it is in progress", post("INSTANTIATE", "END"), 2, wire.Processing, true)
	w.ok(w.as(w.tacker, "POST", path(2)+"/cancel", ""), http.StatusOK, nil)
	// Tacker's retry may call both hooks again.
	wants("START after the END has failed", post("INSTANTIATE", "START"), 3, wire.Completed, false)
	wants("START again", post("INSTANTIATE", "START"), 3, wire.Completed, true)
	wants("END after it was cancelled", post("INSTANTIATE", "END"), 4, wire.Processing, false)
	w.ahead.Store(int64(61 * time.Second))
	w.must(w.Lifecycle.Sweep(context.Background()))
	var failed wire.Operation
	if w.ok(w.as(w.tacker, "GET", path(4), ""), http.StatusOK, &failed); failed.State != wire.Failed {
		t.Fatalf("END after its deadline: %+v", failed)
	}
	wants("END after its deadline", post("INSTANTIATE", "END"), 5, wire.Processing, false)

	if a := w.as(w.tacker, "DELETE", instance, ""); a.status != http.StatusConflict {
		t.Errorf("DELETE while an operation is in progress: %d %s", a.status, a.body)
	}
	wants("TERMINATE START", post("TERMINATE", "START"), 6, wire.Completed, false)
	if a := w.as(w.tacker, "DELETE", instance, ""); a.status != http.StatusConflict {
		t.Errorf("DELETE while a node is enrolled: %d %s", a.status, a.body)
	}
	wants("TERMINATE END", post("TERMINATE", "END"), 7, wire.Completed, false)
	wants("END after the TERMINATE", post("INSTANTIATE", "END"), 5, wire.Failed, true)
	w.ok(w.as(w.tacker, "DELETE", instance, ""), http.StatusNoContent, nil)
	for _, method := range []string{"DELETE", "GET"} {
		if a := w.as(w.tacker, method, instance, ""); a.status != http.StatusNotFound || a.problem.Type != wire.ProblemNotFound {
			t.Errorf("%s of an instance that was deleted: %d %s", method, a.status, a.body)
		}
	}
	if a := w.call(node, "GET", "/v1/node/config", ""); a.status == http.StatusOK {
		t.Errorf("a node of an instance that was deleted reads its configuration: %s", a.body)
	}
}
