package httpapi_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// script is the package file that spec names.
const script = "/v1/vnf_instances/" + instanceID + "/files/Scripts/install_k8s_cluster.sh"

func TestAnOperationIsARecordThatCanBeWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	var instance wire.Instance
	a := w.as(w.viewer, "GET", "/v1/vnf_instances/"+instanceID, "")
	if w.ok(a, http.StatusOK, &instance); instance.Warnings == nil {
		t.Errorf("an instance without warnings has no list: %s", a.body)
	}
	operations := "/v1/vnf_instances/" + instanceID + "/operations"
	if a := w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE"}`); a.problem.Type != wire.ProblemFilesMissing {
		t.Errorf("without its files: %d %s", a.status, a.body)
	}
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)

	if a := w.as(w.operator, "POST", operations, `{"operation": "RESTART", "stackId": ""}`); !slices.Equal(pointers(a.problem), []string{"/operation", "/stackId"}) {
		t.Errorf("with faults: %d %s", a.status, a.body)
	}

	a = w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true, "idempotencyKey": "k"}`)
	var operation wire.Operation
	w.ok(a, http.StatusAccepted, &operation)
	location := a.header.Get("Location")
	if operation.Warnings == nil {
		t.Errorf("an END without warnings has no list: %s", a.body)
	}
	if operation.ID != instanceID+"/1" || operation.Sequence != 1 || location != operations+"/1" || a.header.Get("Retry-After") != "2" {
		t.Errorf("%v: %s", a.header, a.body)
	}
	if again := w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true, "idempotencyKey": "k"}`); again.header.Get("Location") != location {
		t.Errorf("the same key: %d %s", again.status, again.body)
	}
	if other := w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true}`); other.problem.Type != wire.ProblemOperationInProgress {
		t.Errorf("another one: %d %s", other.status, other.body)
	}

	// It waits for a node that never enrolls; its deadline ends it.
	w.ok(w.as(w.viewer, "GET", location, ""), http.StatusOK, &operation)
	if operation.State != wire.Processing {
		t.Fatalf("%+v", operation)
	}
	held := w.hold(w.client, location+"?wait=30s", "Authorization: Bearer "+w.viewer)
	w.ahead.Store(int64(31 * time.Minute))
	w.must(w.Lifecycle.Sweep(context.Background()))
	w.ok(soon(t, held), http.StatusOK, &operation)
	if operation.State != wire.Failed {
		t.Errorf("%+v", operation)
	}
	var list wire.OperationList
	w.ok(w.as(w.viewer, "GET", operations, ""), http.StatusOK, &list)
	if len(list.Items) != 1 {
		t.Errorf("%+v", list)
	}
	w.ok(w.as(w.viewer, "GET", "/v1/operations", ""), http.StatusOK, &list)
	if a := w.as(w.viewer, "GET", strings.Replace(operations, "b1bb", "c1bb", 1), ""); a.status != http.StatusNotFound {
		t.Errorf("of no instance: %d %s", a.status, a.body)
	}
}
