package replica_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// While a follower holds a poll, the leader has no part in it.
func TestAPollIsHeldAtTheFollower(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	asked := w.asked.Load()
	held := w.hold(t.Context(), node, known)
	if w.held.Load() != 1 || w.asking.Load() != 0 || w.asked.Load() != asked+1 {
		t.Errorf("the follower holds %d, the leader %d after %d requests", w.held.Load(), w.asking.Load(), w.asked.Load()-asked)
	}
	// What may be a change of the node, and is none.
	w.Hub.Changed(serverID)
	eventually(t, "the leader is asked again", func() bool { return w.asked.Load() == asked+2 && w.asking.Load() == 0 })
	w.Hub.Changed("another node")
	ok(t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)
	a := <-held
	if a.status != http.StatusOK || !strings.Contains(a.body, "10.20.0.0/24") || a.header.Get("Nodehitch-Hold") != "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if now := w.asked.Load(); now != asked+3 || w.held.Load() != 0 {
		t.Errorf("the leader was asked %d times, and %d polls are held; want 3 and none", now-asked, w.held.Load())
	}
}

// A poll that nothing ends is answered as the leader has said, which is not asked again.
func TestAPollAtAFollowerEndsWithItsTime(t *testing.T) {
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
		t.Errorf("the leader was asked %d times, and %d polls are held; want once and none", now-asked, w.held.Load())
	}
	if a := w.call(node, "GET", "/v1/node/config?wait=soon", "", "If-None-Match: "+known); a.status != http.StatusBadRequest {
		t.Errorf("a wait that is none: %d", a.status)
	}
}

func TestARevocationEndsAPollAtAFollower(t *testing.T) {
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

// A follower sees a commit that the leader itself does not see yet. It is asked only once.
func TestAPollIsWokenBeforeTheLeaderSeesTheChange(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	asked := w.asked.Load()
	w.settle.Lock()
	w.Hub.Changed(serverID)
	eventually(t, "the leader waits for its commit", func() bool { return w.settling.Load() == 1 })
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

// A client that goes while the leader is asked about its poll leaves nothing behind.
func TestAClientGoesWhileTheLeaderIsAsked(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	before := w.Hub.Waiting()
	ctx, cancel := context.WithCancel(t.Context())
	held := w.hold(ctx, node, known)
	w.slow.Store(true)
	w.Hub.Changed(serverID)
	eventually(t, "the leader is asked", func() bool { return w.asking.Load() == 1 })
	cancel()
	<-held
	eventually(t, "it is held no more", func() bool { return w.Hub.Waiting() == before && w.held.Load() == 0 })
}

// A follower that stops says what the leader has said.
func TestAFollowerThatStopsAnswersItsPolls(t *testing.T) {
	w := newWorld(t, nil)
	node, known, held := w.enrollAndHold()
	w.follower.forwarder.Drain()
	if a := <-held; a.status != http.StatusNotModified || a.header.Get("ETag") != known {
		t.Errorf("%d %v", a.status, a.err)
	}
	if a := w.call(node, "GET", "/v1/node/config", "", "If-None-Match: "+known); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("the next one: %d %v", a.status, a.err)
	}
}

// A follower that does not see changes holds nothing: the leader does.
func TestAFollowerThatSeesNoChanges(t *testing.T) {
	w := newWorld(t, nil)
	node, known, held := w.enrollAndHold()
	asked := w.asked.Load()
	w.unseen.Store(true)
	w.Hub.All()
	if a := <-held; a.status != http.StatusNotModified || a.header.Get("ETag") != known || w.asked.Load() != asked+1 {
		t.Errorf("what it held: %d %v, the leader was asked %d times", a.status, a.err, w.asked.Load()-asked)
	}
	waiting := w.Hub.Waiting()
	held = w.hold(t.Context(), node, known)
	eventually(t, "the leader holds it", func() bool { return w.asking.Load() == 1 && w.Hub.Waiting() == waiting+2 }) // the follower looks at it too
	if w.held.Load() != 0 {
		t.Errorf("the follower holds %d", w.held.Load())
	}
	w.Hub.Changed("another node")
	w.follower.forwarder.Drain() // what the leader holds
	if a := <-held; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.err)
	}
}

// A follower that may have missed changes, because it was frozen say, does not give an answer that it
// kept.
func TestAFollowerThatMayHaveMissedARevocation(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	w.unseen.Store(true)
	ok(t, w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil)
	if a := <-held; a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// One that stops then has no answer.
func TestAFollowerThatSeesNoChangesStops(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	w.unseen.Store(true)
	w.follower.forwarder.Drain()
	if a := <-held; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.err)
	}
}

// A change finds no leader: the poll ends, and nobody is told that nothing has changed.
func TestAPollIsWokenWithoutALeader(t *testing.T) {
	w := newWorld(t, nil)
	_, _, held := w.enrollAndHold()
	nobody := ""
	w.follower.leader.Store(&nobody)
	w.Hub.Changed(serverID)
	if a := <-held; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || w.held.Load() != 0 {
		t.Errorf("%d %v", a.status, a.err)
	}
}

// Only a replica holds polls in the leader's place.
func TestACallerHoldsNoPoll(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	w.unseen.Store(true)
	held := w.holdFor(t.Context(), node, known, "?wait=100ms", "Nodehitch-Hold: 1h") // at the leader
	if a := <-held; a.status != http.StatusNotModified || a.header.Get("Nodehitch-Hold") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// A follower may ask the leader several times, but it can send a body only once.
func TestAPollWithABodyIsHeldAtTheLeader(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	asked := w.asked.Load()
	out := make(chan answered, 1)
	go func() {
		ofUnknownLength := struct{ io.Reader }{strings.NewReader("{}")}
		out <- do(t.Context(), node, "GET", w.follower.url+"/v1/node/config", ofUnknownLength, "If-None-Match: "+known)
	}()
	eventually(t, "the poll is held", func() bool { return w.Hub.Waiting() > 0 })
	ok(t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)
	if a := <-out; a.status != http.StatusOK || !strings.Contains(a.body, "10.20.0.0/24") || w.asked.Load() != asked+1 {
		t.Errorf("%d %v, and the leader was asked %d times", a.status, a.err, w.asked.Load()-asked)
	}
}
