package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

func TestWhatHasHappenedIsListedAndWaitedFor(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	var list wire.EventList
	w.ok(w.as(w.viewer, "GET", "/v1/events?vnfInstanceId="+instanceID, ""), http.StatusOK, &list)
	by := map[wire.EventType]string{}
	for _, e := range list.Items {
		by[e.Type] = e.By
	}
	if want := (map[wire.EventType]string{
		wire.HappenedInstanceCreated: "token operator", wire.HappenedDesiredStateChanged: "token operator", wire.HappenedServerExpected: "token operator",
		wire.HappenedDocumentGiven: "token operator", wire.HappenedEnrolled: "node " + serverID,
	}); fmt.Sprint(by) != fmt.Sprint(want) {
		t.Errorf("what has happened, and by whom:\n%v, want\n%v", by, want)
	}

	path := fmt.Sprintf("/v1/events?nodeId=%s&since=%d", serverID, list.Sequence)
	w.ok(w.as(w.viewer, "GET", path, ""), http.StatusOK, &list)
	if list.Items == nil || len(list.Items) != 0 {
		t.Errorf("behind the last one there is %+v", list)
	}
	held := w.hold(w.client, path+"&wait=30s", "Authorization: Bearer "+w.viewer)
	w.ok(w.call(node, "PUT", "/v1/node/status", `{"epoch": 1, "observedGeneration": 1, "observedDigest": "x", "facts": {},
		"conditions": [{"type": "Ready", "status": "False", "reason": "Converging", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`), http.StatusNoContent, nil)
	w.ok(soon(t, held), http.StatusOK, &list)
	if types := typesOf(list.Items); !slices.Equal(types, []wire.EventType{wire.HappenedDocumentObserved, wire.HappenedConditionChanged}) {
		t.Errorf("the report is answered with %v", types)
	}
	w.ok(w.as(w.viewer, "GET", "/v1/events?type=Enrolled", ""), http.StatusOK, &list)
	if types := typesOf(list.Items); !slices.Equal(types, []wire.EventType{wire.HappenedEnrolled}) {
		t.Errorf("of one type there are %v", types)
	}
	if a := w.as(w.viewer, "GET", "/v1/events?since=1", ""); a.status != http.StatusGone || a.problem.Type != wire.ProblemEventsPruned {
		t.Errorf("what is long gone: %d %s", a.status, a.body)
	}
	for _, query := range []string{"since=0", "limit=0", "limit=10001", "nodeId=x", "type=enrolled", "wait=1h"} {
		if a := w.as(w.viewer, "GET", "/v1/events?"+query, ""); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

// Who made and revoked a token is told, and never its secret.
func TestWhoMadeATokenIsTold(t *testing.T) {
	w := newWorld(t)
	var made wire.NewToken
	w.ok(w.as(w.operator, "POST", "/v1/tokens", `{"name": "ci", "scope": "viewer"}`), http.StatusCreated, &made)
	w.ok(w.as(w.operator, "DELETE", "/v1/tokens/"+made.Token.ID, ""), http.StatusNoContent, nil)
	answer := w.as(w.viewer, "GET", "/v1/events?limit=2", "")
	var list wire.EventList
	w.ok(answer, http.StatusOK, &list)
	var got []string
	for _, e := range list.Items {
		got = append(got, fmt.Sprintln(e.Type, e.TokenID == made.Token.ID, e.TokenName, e.By))
	}
	if want := []string{"TokenCreated true ci token operator\n", "TokenRevoked true ci token operator\n"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if strings.Contains(answer.body, made.Secret) {
		t.Error("an event has the secret")
	}
}

func typesOf(events []wire.Event) (types []wire.EventType) {
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}
