package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

func TestTheHeaderIdempotencyKeyIsHonoured(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	const operations = instancePath + "/operations"
	post := func(member, header string) answer {
		return w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true`+member+`}`, "Idempotency-Key: "+header)
	}
	for name, header := range map[string]string{
		"nothing": "", "two keys": "a, b", "two in quotes": `"a", "b"`, "a quote alone": `"a`, "a space": "a b", "no ASCII": "ä",
		"too long": strings.Repeat("a", 129),
	} {
		if a := post("", header); a.status != http.StatusBadRequest || !strings.Contains(a.problem.Detail, "Idempotency-Key") {
			t.Errorf("%s: %d %s, want 400", name, a.status, a.body)
		}
	}
	if a := post(`, "idempotencyKey": "other"`, "k 1"); a.status != http.StatusBadRequest {
		t.Errorf("a header that is no key, beside one in the body: %d %s", a.status, a.body)
	}
	if a := post(`, "idempotencyKey": "other"`, "k"); a.status != http.StatusBadRequest || !slices.Equal(pointers(a.problem), []string{"/idempotencyKey"}) {
		t.Errorf("another key in the body: %d %s", a.status, a.body)
	}
	var first wire.Operation
	w.ok(post("", "k"), http.StatusAccepted, &first)
	if first.IdempotencyKey != "k" || first.Sequence != 1 || first.Joined {
		t.Errorf("got %+v, want the first operation, with the key k", first)
	}
	for name, again := range map[string]answer{
		"the header again": post("", "k"), "in quotes": post("", `"k"`), "in both": post(`, "idempotencyKey": "k"`, "k"),
		"in the body": w.as(w.operator, "POST", operations, `{"operation": "INSTANTIATE", "partial": true, "idempotencyKey": "k"}`),
	} {
		var o wire.Operation
		if w.ok(again, http.StatusAccepted, &o); !o.Joined || o.Sequence != 1 {
			t.Errorf("%s: %s, want the first operation", name, again.body)
		}
	}
}

// What would be done twice must not be told that it is done once.
func TestEveryOtherPostRefusesTheHeaderIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	document, err := httpapi.Document()
	w.must(err)
	node, joinToken := w.enroll()
	seen := 0
	for path, item := range document.Paths.Map() {
		if item.Post == nil || item.Post.OperationID == "postOperation" {
			continue
		}
		seen++
		client, credential := w.client, "Bearer "+w.operator
		switch policy[item.Post.OperationID] {
		case "certificate":
			client = node
		case "joinToken":
			credential = "Bearer " + joinToken
		}
		a := w.call(client, "POST", paths.Replace(path), "{}", "Authorization: "+credential, "Idempotency-Key: k")
		if a.status != http.StatusBadRequest || !strings.Contains(a.problem.Detail, "header parameter Idempotency-Key is honoured by POST of operations alone") {
			t.Errorf("%s: %d %s, want 400 and why", path, a.status, a.body)
		}
	}
	if seen == 0 {
		t.Error("the document has no other POST")
	}
}
