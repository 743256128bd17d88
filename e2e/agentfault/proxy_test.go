package agentfault

import (
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// A proxy that closes what is silent for three seconds, and a poll interval of eight.
func TestIdleTimeoutOnTheWay(t *testing.T) {
	t.Parallel()
	c := results.Begin(t, suite, "idle timeout of a proxy",
		"a proxy closes connections after 3 s of silence, polls are held for 8 s: the agent asks for shorter polls, keeps its connection, and has new documents at once")
	f := newForwarder(t)
	f.idle = 3 * time.Second
	w := f.between(t, "8")
	a := w.agent(0)
	learned := loopback.Within(w.t, 90*time.Second, "it asks for shorter polls", func() bool { return a.Status().Controller.HoldSeconds != 0 })
	hold := a.Status().Controller.HoldSeconds
	loopback.Within(w.t, 30*time.Second, "it is current", func() bool { return w.current(0) })
	connections, polls := f.accepted.Load(), w.requests("getNodeConfig")
	steady := 8 * time.Second
	for end := time.Now().Add(steady); time.Now().Before(end); time.Sleep(200 * time.Millisecond) { // the time itself is the case
		if s := a.Status().Controller; !s.Connected {
			t.Fatalf("it still loses its connection: %+v", s)
		}
	}
	connections, polls = f.accepted.Load()-connections, w.requests("getNodeConfig")-polls
	if connections > 2 || polls > int(steady.Seconds()) {
		t.Errorf("%d connections and %d polls in %v", connections, polls, steady)
	}
	w.change()
	arrived := loopback.Within(w.t, 30*time.Second, "the next document", func() bool { return w.current(0) })
	if n := strings.Count(string(a.Log()), " advice="); n != 1 {
		t.Errorf("the log says %d times what to do, expected once", n)
	}
	c.Figure("shorter polls after", "%.0f s", learned.Seconds())
	c.Figure("polls held for", "%d s", hold)
	c.Figure("new connections in 8 s", "%d", connections)
	c.Figure("document after", "%.1f s", arrived.Seconds())
}

// The same, by a NAT or firewall that forgets connections: the agent gets no packet that
// says so.
func TestConnectionsAreForgottenOnTheWay(t *testing.T) {
	t.Parallel()
	c := results.Begin(t, suite, "connections forgotten by a firewall",
		"a firewall drops connections after 4 s of silence without telling the agent, polls are held for 10 s: documents arrive, and at once when polls are shorter")
	results.LongOnly(t)
	f := newForwarder(t)
	f.idle, f.forget = 4*time.Second, true
	w := f.between(t, "10")
	a := w.agent(0)
	loopback.Within(w.t, 60*time.Second, "it is current", func() bool { return w.current(0) })
	time.Sleep(f.idle + time.Second) // its poll is forgotten by now
	w.change()
	worst := loopback.Within(w.t, 90*time.Second, "the next document, although its poll hangs", func() bool { return w.current(0) })
	learned := loopback.Within(w.t, 4*time.Minute, "it asks for shorter polls", func() bool { h := a.Status().Controller.HoldSeconds; return h != 0 && h < 4 })
	loopback.Within(w.t, 60*time.Second, "it is connected", func() bool { return a.Status().Controller.Connected })
	time.Sleep(3 * f.idle)
	w.change()
	then := loopback.Within(w.t, 30*time.Second, "the next document", func() bool { return w.current(0) })
	c.Figure("document during a dead poll after", "%.0f s", worst.Seconds())
	c.Figure("shorter polls after", "%.0f s", learned.Seconds())
	c.Figure("document with shorter polls after", "%.1f s", then.Seconds())
	c.Figure("connections", "%d", f.accepted.Load())
}

// The document is cut off by a reset after every so many bytes of the answer.
func TestResetInTheMiddleOfADocument(t *testing.T) {
	t.Parallel()
	c := results.Begin(t, suite, "reset in the middle of a document",
		"the connection is reset after 1, 20, 200 … bytes of an answer: no part of it is used, and the next attempt gets all of it")
	f := newForwarder(t)
	w := f.between(t, "5")
	a := w.agent(0)
	loopback.Until(t, "it is current", func() bool { return w.current(0) })
	var worst time.Duration
	cuts := []int64{1, 20, 200, 600}
	for _, bytes := range cuts {
		before := f.accepted.Load()
		f.cutAfter.Store(bytes)
		w.change()
		worst = max(worst, loopback.Within(w.t, 60*time.Second, "the document, after the reset", func() bool { return w.current(0) && f.cutAfter.Load() < 0 }))
		if more := f.accepted.Load() - before; more > 6 {
			t.Errorf("after %d bytes: %d connections for one document", bytes, more)
		}
	}
	if s := a.Status(); s.Node.LastFailedGeneration != 0 {
		t.Errorf("a partial document was reported as an unusable one: %+v", s.Node)
	}
	c.Figure("resets", "%d", len(cuts))
	c.Figure("slowest document", "%.1f s", worst.Seconds())
}
