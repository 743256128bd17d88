package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// eventually waits for what another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// hold starts a request and returns once it is held; its answer comes on the channel.
func (w *world) hold(client *http.Client, path string, headers ...string) <-chan answer {
	w.t.Helper()
	before := w.Hub.Waiting()
	out := make(chan answer, 1)
	go func() {
		a, err := w.try(context.Background(), client, "GET", path, "", headers...)
		if err != nil {
			a.body = err.Error()
		}
		out <- a
	}()
	eventually(w.t, "the request is held", func() bool { return w.Hub.Waiting() > before })
	return out
}

// soon is the answer of a request that has to end now.
func soon(t testing.TB, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(10 * time.Second):
		t.Fatal("no answer")
		return answer{}
	}
}

// thisAgent is what an agent of this build says of itself; a poll without it is one of the first
// release, from which later sections are withheld.
var thisAgent = "Nodehitch-Agent: " + wire.ThisAgent("v1").Header()

func etag(t testing.TB, w *world, node *http.Client, headers ...string) string {
	t.Helper()
	a := w.call(node, "GET", "/v1/node/config", "", headers...)
	var config wire.NodeConfig
	w.ok(a, http.StatusOK, &config)
	if config.Role != wire.RoleStorage || config.Storage == nil || len(config.Storage.Exports) != 1 || a.header.Get("ETag") != `"`+config.Digest()+`"` {
		t.Fatalf("%s %s", a.header.Get("ETag"), a.body)
	}
	return a.header.Get("ETag")
}

func TestAPollIsAnsweredWhenTheConfigurationChanges(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	known := etag(t, w, node)
	held := w.hold(node, "/v1/node/config", "If-None-Match: "+known)

	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)

	a := soon(t, held)
	if a.status != http.StatusOK || a.header.Get("ETag") == known || !strings.Contains(a.body, "10.20.0.0/24") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a.header.Get("Nodehitch-Poll-Seconds") != "30" || a.header.Get("Nodehitch-Converge-Seconds") != "300" || a.header.Get("Nodehitch-Spread-Seconds") != "7" {
		t.Errorf("poll interval: %v", a.header)
	}
	if a := w.call(node, "GET", "/v1/node/config", "", "If-None-Match: "+known); a.status != http.StatusOK {
		t.Errorf("an old ETag: %d", a.status)
	}
}

func TestAPollThatNothingHappensToIsAnsweredAfterTheCadence(t *testing.T) {
	w := newWorld(t, pollSeconds(1))
	node, _ := w.enroll()
	known := etag(t, w, node)
	started := time.Now()
	a := w.call(node, "GET", "/v1/node/config", "", "If-None-Match: "+known)
	took := time.Since(started)
	if a.status != http.StatusNotModified || a.header.Get("ETag") != known || a.header.Get("Nodehitch-Poll-Seconds") != "1" || a.body != "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if took < 900*time.Millisecond || took > 2*time.Second {
		t.Errorf("held for %s", took)
	}
	if log := w.log.String(); strings.Contains(log, "level=INFO msg=request operation=getNodeConfig") {
		t.Error("a poll is logged")
	}
}

func TestAPollIsHeldForNoLongerThanItsAgentAsks(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	known := etag(t, w, node)
	started := time.Now()
	a := w.call(node, "GET", "/v1/node/config?wait=1s", "", "If-None-Match: "+known)
	if took := time.Since(started); a.status != http.StatusNotModified || took < 900*time.Millisecond || took > 10*time.Second {
		t.Errorf("%d after %s", a.status, took)
	}
	held := w.hold(node, "/v1/node/config?wait=20", "If-None-Match: "+known)
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)
	if a := soon(t, held); a.status != http.StatusOK {
		t.Errorf("a change: %d", a.status)
	}
	for _, wait := range []string{"soon", "-1s", "1.5"} {
		if a := w.call(node, "GET", "/v1/node/config?wait="+wait, "", "If-None-Match: "+known); a.status != http.StatusBadRequest {
			t.Errorf("wait=%s: %d", wait, a.status)
		}
	}
}

func TestARevokedIdentityEndsItsPollAtOnce(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	held := w.hold(node, "/v1/node/config", "If-None-Match: "+etag(t, w, node))
	w.ok(w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil)
	if a := soon(t, held); a.status != http.StatusForbidden || a.problem.Type != wire.ProblemRevoked {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.call(node, "GET", "/v1/node/config", ""); a.problem.Type != wire.ProblemRevoked {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

func TestAShutdownAnswersHeldPolls(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	poll := w.hold(node, "/v1/node/config", "If-None-Match: "+etag(t, w, node))
	list := w.as(w.viewer, "GET", "/v1/nodes", "")
	watching := w.hold(w.client, "/v1/nodes?wait=60s", "Authorization: Bearer "+w.viewer, "If-None-Match: "+list.header.Get("ETag"))

	stopped := make(chan error, 1)
	go func() { stopped <- w.server.Shutdown(context.Background()) }()

	for name, answers := range map[string]<-chan answer{"the poll": poll, "the list": watching} {
		if a := soon(t, answers); a.status != http.StatusNotModified || !a.closes {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A poll that ends after the store answers nothing any more, because another controller is the
// leader say, is not told that nothing has changed.
func TestAPollThatOutlivesItsStore(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	poll := w.hold(node, "/v1/node/config", "If-None-Match: "+etag(t, w, node))
	w.must(w.Store.Close())
	w.handler.Drain()
	if a := soon(t, poll); a.status < http.StatusInternalServerError {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestAnAgentThatGoesAwayLeavesNoPollHeld(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	known := etag(t, w, node)
	ctx, hangUp := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		// What it sees of the end is the client's business: an error, or an answer
		// that overtook it.
		_, _ = w.try(ctx, node, "GET", "/v1/node/config", "", "If-None-Match: "+known)
	}()
	eventually(t, "the poll is held", func() bool { return w.Hub.Waiting() == 1 })
	hangUp()
	<-gone
	eventually(t, "no poll is held", func() bool { return w.Hub.Waiting() == 0 })
}

func TestAListIsAnsweredWhenItChangesAndNotBecauseANodeCalls(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	list := w.as(w.viewer, "GET", "/v1/nodes", "")
	etag(t, w, node, thisAgent) // a call, which changes lastSeenAt
	tag := list.header.Get("ETag")
	if !strings.HasPrefix(tag, `W/"`) {
		t.Errorf("ETag %s: the content may differ in the time of the last call, so it has to be weak", tag)
	}
	if a := w.as(w.viewer, "GET", "/v1/nodes", "", "If-None-Match: "+tag); a.status != http.StatusNotModified {
		t.Errorf("after a call of the node: %d", a.status)
	}
	held := w.hold(w.client, "/v1/nodes?wait=30s", "Authorization: Bearer "+w.viewer, "If-None-Match: "+tag)
	w.ok(w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil)
	var nodes wire.NodeList
	w.ok(soon(t, held), http.StatusOK, &nodes)
	if len(nodes.Items) != 1 || nodes.Items[0].State != wire.NodeRevoked {
		t.Errorf("%+v", nodes)
	}
}

// What a node reports of a generation that is past counts no more, so it has to hear of
// the present one, also if the content is what it was.
func TestAPollIsAnsweredWhenTheSameContentHasAnotherGeneration(t *testing.T) {
	w := newWorld(t, hasty, pollSeconds(1))
	node, _ := w.enroll()
	known := "If-None-Match: " + etag(t, w, node, thisAgent)
	if a := w.call(node, "GET", "/v1/node/config?generation=7", "", known, thisAgent); a.status != http.StatusOK {
		t.Errorf("with another generation: %d %s", a.status, a.body)
	}
	if a := w.call(node, "GET", "/v1/node/config?generation=1", "", known, thisAgent); a.status != http.StatusNotModified {
		t.Errorf("with the present one: %d %s", a.status, a.body)
	}
}
