package replica_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// While a door holds a poll, the writer has no part in it.
func TestAPollIsHeldAtTheDoor(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	asked := w.asked.Load()
	held := w.hold(t.Context(), node, known)
	if w.held.Load() != 1 || w.asking.Load() != 0 || w.asked.Load() != asked+1 {
		t.Errorf("the door holds %d, the writer %d after %d requests", w.held.Load(), w.asking.Load(), w.asked.Load()-asked)
	}
	// What may be a change of the node, and is none.
	w.Hub.Changed(serverID)
	eventually(t, "the writer is asked again", func() bool { return w.asked.Load() == asked+2 && w.asking.Load() == 0 })
	w.Hub.Changed("another node")
	ok(t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)
	a := <-held
	if a.status != http.StatusOK || !strings.Contains(a.body, "10.20.0.0/24") || a.header.Get("Nodehitch-Hold") != "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if now := w.asked.Load(); now != asked+3 || w.held.Load() != 0 {
		t.Errorf("the writer was asked %d times, and %d polls are held; want 3 and none", now-asked, w.held.Load())
	}
}

// A poll that nothing ends is answered as the writer has said, which is not asked again.
func TestAPollAtADoorEndsWithItsTime(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	asked := w.asked.Load()
	a := <-w.holdFor(t.Context(), node, known, "?wait=100ms")
	if a.status != http.StatusNotModified || a.header.Get("ETag") != known || a.header.Get("Nodehitch-Poll-Seconds") != "30" || a.header.Get("Nodehitch-Hold") != "" ||
		len(a.header.Values("X-Request-Id")) != 1 {
		t.Errorf("%d %v", a.status, a.header)
	}
	if now := w.asked.Load(); now != asked+1 || w.held.Load() != 0 {
		t.Errorf("the writer was asked %d times, and %d polls are held; want once and none", now-asked, w.held.Load())
	}
	if a := w.call(node, "GET", "/v1/node/config?wait=soon", "", "If-None-Match: "+known); a.status != http.StatusBadRequest {
		t.Errorf("a wait that is none: %d", a.status)
	}
}

func TestARevocationEndsAPollAtADoor(t *testing.T) {
	w := newWorld(t, nil)
	node, _, held := w.enrollAndHold()
	ok(t, w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil)
	if a := <-held; a.status != http.StatusForbidden || !strings.Contains(a.body, wire.ProblemRevoked) || !strings.Contains(a.body, "by token operator") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.call(node, "GET", "/v1/node/config", ""); a.status != http.StatusForbidden {
		t.Errorf("afterwards: %d", a.status)
	}
}

// A door sees a commit that the writer itself does not see yet. It is asked only once.
func TestAPollIsWokenBeforeTheWriterSeesTheChange(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	asked := w.asked.Load()
	w.settle.Lock()
	w.Hub.Changed(serverID)
	eventually(t, "the writer waits for its commit", func() bool { return w.settling.Load() == 1 })
	if now := w.asked.Load(); now != asked {
		t.Errorf("the API was asked %d times before the commit", now-asked)
	}
	must(t, w.Enrollment.Revoke(t.Context(), serverID, "test"))
	w.settle.Unlock()
	if a := <-held; a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestAPollEndsWithItsClient(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	before := w.Hub.Waiting()
	ctx, cancel := context.WithCancel(t.Context())
	held := w.hold(ctx, node, known)
	cancel()
	<-held
	eventually(t, "it is held no more", func() bool { return w.Hub.Waiting() == before && w.held.Load() == 0 })
}

// A client that goes while the writer is asked about its poll leaves nothing behind.
func TestAClientGoesWhileTheWriterIsAsked(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	before := w.Hub.Waiting()
	ctx, cancel := context.WithCancel(t.Context())
	held := w.hold(ctx, node, known)
	w.slow.Store(true)
	w.Hub.Changed(serverID)
	eventually(t, "the writer is asked", func() bool { return w.asking.Load() == 1 })
	cancel()
	<-held
	eventually(t, "it is held no more", func() bool { return w.Hub.Waiting() == before && w.held.Load() == 0 })
}

// A door that stops says what the writer has said.
func TestADoorThatStopsAnswersItsPolls(t *testing.T) {
	w := newWorld(t, nil)
	node, known, held := w.enrollAndHold()
	w.door.forwarder.Drain()
	if a := <-held; a.status != http.StatusNotModified || a.header.Get("ETag") != known {
		t.Errorf("%d %v", a.status, a.err)
	}
	if a := w.call(node, "GET", "/v1/node/config", "", "If-None-Match: "+known); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("the next one: %d %v", a.status, a.err)
	}
}

// A door that does not see changes holds nothing: the writer does.
func TestADoorThatSeesNoChanges(t *testing.T) {
	w := newWorld(t, nil)
	node, known, held := w.enrollAndHold()
	asked := w.asked.Load()
	w.unseen.Store(true)
	w.Hub.All()
	if a := <-held; a.status != http.StatusNotModified || a.header.Get("ETag") != known || w.asked.Load() != asked+1 {
		t.Errorf("what it held: %d %v, the writer was asked %d times", a.status, a.err, w.asked.Load()-asked)
	}
	waiting := w.Hub.Waiting()
	held = w.hold(t.Context(), node, known)
	eventually(t, "the writer holds it", func() bool { return w.asking.Load() == 1 && w.Hub.Waiting() == waiting+2 }) // the door looks at it too
	if w.held.Load() != 0 {
		t.Errorf("the door holds %d", w.held.Load())
	}
	w.Hub.Changed("another node")
	w.door.forwarder.Drain() // what the writer holds
	if a := <-held; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.err)
	}
}

// A door that may have missed changes, because it was frozen say, does not give an answer that it
// kept.
func TestADoorThatMayHaveMissedARevocation(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	w.unseen.Store(true)
	ok(t, w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil)
	if a := <-held; a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// One that stops then has no answer.
func TestADoorThatSeesNoChangesStops(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	w.unseen.Store(true)
	w.door.forwarder.Drain()
	if a := <-held; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.err)
	}
}

// A change finds no writer: the poll ends, and nobody is told that nothing has changed.
func TestAPollIsWokenWithoutAWriter(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	nobody := ""
	w.door.writer.Store(&nobody)
	w.Hub.Changed(serverID)
	if a := <-held; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || w.held.Load() != 0 {
		t.Errorf("%d %v", a.status, a.err)
	}
}

// Only a replica holds polls in the writer's place.
func TestACallerHoldsNoPoll(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	w.unseen.Store(true)
	held := w.holdFor(t.Context(), node, known, "?wait=100ms", "Nodehitch-Hold: 1h") // at the writer
	if a := <-held; a.status != http.StatusNotModified || a.header.Get("Nodehitch-Hold") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// A door may ask the writer several times, but it can send a body only once.
func TestAPollWithABodyIsHeldAtTheWriter(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	asked := w.asked.Load()
	out := make(chan answered, 1)
	go func() {
		ofUnknownLength := struct{ io.Reader }{strings.NewReader("{}")}
		out <- do(t.Context(), node, "GET", w.door.url+"/v1/node/config", ofUnknownLength, "If-None-Match: "+known)
	}()
	eventually(t, "the poll is held", func() bool { return w.Hub.Waiting() > 0 })
	ok(t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)
	if a := <-out; a.status != http.StatusOK || !strings.Contains(a.body, "10.20.0.0/24") || w.asked.Load() != asked+1 {
		t.Errorf("%d %v, and the writer was asked %d times", a.status, a.err, w.asked.Load()-asked)
	}
}
