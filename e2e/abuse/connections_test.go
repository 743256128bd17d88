package abuse

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// attack makes connections and uses them as its name says.
type attack struct {
	name, shows string
	do          func(a *arena)
	// By how much the process may grow; 0 leaves the small attack out.
	small, full int64
}

var attacks = []attack{
	{"silent connections", "a silent connection makes room for a new one", silent, 40 * mib, 60 * mib},
	{"silent connections from one address", "one address leaves room for others", fromOne, 40 * mib, 60 * mib},
	{"half handshakes", "a client that stops in the middle of a handshake delays no other", halfHandshakes, 60 * mib, 100 * mib},
	{"connections without a request", "a connection without a request makes room for a new one", noRequest, 60 * mib, 150 * mib},
	{"slow headers", "a header that is not complete after ten seconds is cut off", slowHeaders, 0, 150 * mib},
	{"header bombs", "headers of a megabyte, ten thousand headers and endless request lines are refused", bombs, 60 * mib, 100 * mib},
	{"requests without reading answers", "a client that does not read its answers gets no more", pipeline, 80 * mib, 120 * mib},
	{"announced bodies that never arrive", "they hold only a connection, also on a path that does not exist", noBody, 80 * mib, 150 * mib},
	{"downloads that are not read", "they hold a connection and little memory each", stalled, 60 * mib, 150 * mib},
	{"polls of one node", "a node has a few connections; the newest are kept", polls, 60 * mib, 60 * mib},
	{"watches of one viewer", "a token has a few hundred connections", watches, 80 * mib, 100 * mib},
	{"streams of one session of the status page", "they count as its token's connections", streams, 80 * mib, 100 * mib},
	{"idle connections of one token", "a token keeps a few hundred; the others are closed", idle, 80 * mib, 100 * mib},
}

func TestConnections(t *testing.T) {
	for _, at := range attacks {
		t.Run(at.name, func(t *testing.T) {
			c := results.Begin(t, "abuse", at.name, at.shows)
			if at.small == 0 {
				results.LongOnly(t)
			}
			a := open(t, c)
			w := a.during(func() { at.do(a) })
			bound := at.small
			if a.full {
				bound = at.full
			}
			a.grew(w, bound)
			c.Figure("descriptors", "at most %d", w.files)
		})
	}
}

// unauthenticated is the metric of connections whose caller has not authenticated.
const unauthenticated = `nodehitch_connections{state="unauthenticated"}`

// metric is one of the controller's.
func (a *arena) metric(name string) int {
	a.t.Helper()
	all, err := a.Metrics()
	a.must(err)
	value, there := all[name]
	if !there {
		a.t.Errorf("there is no metric %s", name)
	}
	return int(value)
}

// counted is a counter; one that has never counted is no metric yet.
func (a *arena) counted(name string) int {
	a.t.Helper()
	all, err := a.Metrics()
	a.must(err)
	return int(all[name])
}

// hold makes n connections and keeps those that it gets for as long as the test.
func (a *arena) hold(n int, each func(i int) net.Conn) {
	var got atomic.Int64
	together(min(n, 50), func(worker int) {
		for i := worker; i < n; i += min(n, 50) {
			if conn := each(i); conn != nil {
				got.Add(1)
			}
		}
	})
	if got.Load() == 0 {
		a.t.Errorf("none of %d connections was made: nothing was attacked", n)
	}
}

// calls leaves time for a few calls of the well-behaved clients.
func (a *arena) calls() {
	tick := time.NewTimer(time.Second)
	defer tick.Stop()
	<-tick.C
}

func silent(a *arena) {
	n := a.size(1000, 10000)
	a.hold(n, a.dial)
	a.calls()
	rejected := a.counted(`nodehitch_connections_rejected_total{reason="limit"}`) + a.counted(`nodehitch_connections_rejected_total{reason="source_limit"}`)
	closed := a.counted(`nodehitch_connections_closed_total{reason="idle"}`)
	a.c.Figure("connections", "%d; %d rejected, %d closed for others", n, rejected, closed)
	if rejected != 0 {
		a.t.Errorf("%d were rejected", rejected)
	}
	// The small attack does not reach the bound.
	if held := a.metric(unauthenticated); held > 2048 || held == 0 {
		a.t.Errorf("%d are held", held)
	}
}

func fromOne(a *arena) {
	n := a.size(1000, 10000)
	a.hold(n, func(int) net.Conn { return a.dial(0) })
	a.calls()
	held := a.metric(unauthenticated)
	a.c.Figure("connections", "%d; %d held", n, held)
	if held > 512+16 || held == 0 {
		a.t.Errorf("%d are held", held)
	}
}

// stalled begins downloads of the agent, which need no authentication, and reads nothing.
func stalled(a *arena) {
	file, err := os.Create(filepath.Join(a.Dir, "nodehitch-agent-amd64"))
	a.must(err)
	a.must(file.Truncate(256 * mib))
	a.must(file.Close())
	n := a.size(100, 400)
	a.hold(n, func(i int) net.Conn {
		conn := a.secure(i, a.unauthenticated)
		if conn != nil {
			_, _ = io.WriteString(conn, head("GET", "/v1/agent/x86_64", "", 0))
		}
		return conn
	})
	a.calls()
	a.c.Figure("downloads", "%d", n)
}

func halfHandshakes(a *arena) {
	hello := a.hello()
	a.hold(a.size(500, 5000), func(i int) net.Conn {
		conn := a.dial(i)
		if conn != nil {
			_, _ = conn.Write(hello)
		}
		return conn
	})
	a.calls()
}

// hello is the first message of a handshake.
func (a *arena) hello() []byte {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	go func() {
		_ = tls.Client(theirs, a.unauthenticated).HandshakeContext(context.WithoutCancel(a.t.Context()))
	}()
	message := make([]byte, 8192)
	n, err := ours.Read(message)
	a.must(err)
	return message[:n]
}

func noRequest(a *arena) {
	a.hold(a.size(200, 2500), func(i int) net.Conn { return a.secure(i, a.unauthenticated) })
	a.calls()
}

// slowHeaders sends headers byte by byte until they are cut off.
func slowHeaders(a *arena) {
	n := a.size(100, 1000)
	var cut, begun atomic.Int64
	together(n, func(i int) {
		conn := a.secure(i, a.unauthenticated)
		if conn == nil {
			return
		}
		begun.Add(1)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for _, b := range []byte(strings.Repeat("GET /healthz?", 20)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				cut.Add(1)
				return
			}
			<-tick.C
		}
	})
	a.c.Figure("headers", "%d of %d were begun", begun.Load(), n)
	if cut.Load() != begun.Load() || begun.Load() == 0 {
		a.t.Errorf("%d of %d were cut off", cut.Load(), begun.Load())
	}
}

func bombs(a *arena) {
	big := strings.Repeat("x", mib)
	var many strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&many, "X-%d: y\r\n", i)
	}
	var refused atomic.Int64
	for name, bomb := range map[string]string{
		"a header of a megabyte":       head("GET", "/healthz", "", 0, "X: "+big),
		"a token of a megabyte":        head("GET", "/v1/nodes", big, 0),
		"ten thousand headers":         head("GET", "/healthz", "", 0, strings.TrimSuffix(many.String(), "\r\n")),
		"a request line of a megabyte": head("GET", "/"+big, "", 0),
		"a header without an end":      "GET / HTTP/1.1\r\nX: " + big,
	} {
		together(a.size(5, 50), func(i int) {
			status, answer := a.send(i, a.unauthenticated, bomb, strings.NewReader(""))
			if status == http.StatusRequestHeaderFieldsTooLarge {
				refused.Add(1)
			}
			if status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
				a.t.Errorf("%s: answered %d %.200q", name, status, answer)
			}
		})
	}
	a.c.Figure("answers", "%d", refused.Load())
	if refused.Load() == 0 {
		a.t.Error("no bomb was answered")
	}
}

func pipeline(a *arena) {
	requests := strings.Repeat(head("GET", "/v1/none", "", 0), 1000)
	a.hold(a.size(50, 500), func(i int) net.Conn {
		conn := a.secure(i, a.unauthenticated)
		if conn != nil {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			for range 100 {
				if _, err := io.WriteString(conn, requests); err != nil {
					break
				}
			}
		}
		return conn
	})
	a.calls()
}

func noBody(a *arena) {
	for _, begun := range []string{
		head("POST", "/v1/enroll", "made.up", 60000), head("POST", "/v1/none", "", 200000),
		head("PUT", putInstance, a.operator, mib-1), head("PUT", putInstance+"/files/a", a.operator, 1<<30),
	} {
		a.hold(a.size(50, 200), func(i int) net.Conn {
			conn := a.secure(i, a.unauthenticated)
			if conn != nil {
				_, _ = io.WriteString(conn, begun+strings.Repeat("[", 4000))
			}
			return conn
		})
	}
	a.calls()
}

func polls(a *arena) {
	tag := a.header(a.node, head("GET", "/v1/node/config", "", 0), "ETag")
	n := a.size(100, 2000)
	a.hold(n, func(i int) net.Conn {
		conn := a.secure(i, a.node)
		if conn != nil {
			_, _ = io.WriteString(conn, head("GET", "/v1/node/config", "", 0, "If-None-Match: "+tag))
		}
		return conn
	})
	a.calls()
	held := a.metric("nodehitch_long_polls_in_flight")
	a.c.Figure("polls", "%d; %d held", n, held)
	// One more may be on its way out.
	if held > 9 || held == 0 {
		a.t.Errorf("%d polls of one node are held", held)
	}
}

func watches(a *arena) {
	tag := a.header(a.unauthenticated, head("GET", "/v1/nodes", a.viewer, 0), "ETag")
	a.heldByOneToken("watches", head("GET", "/v1/nodes?wait=60s", a.viewer, 0, "If-None-Match: "+tag))
}

func streams(a *arena) {
	form := "token=" + a.viewer
	cookie, _, _ := strings.Cut(a.header(a.unauthenticated, head("POST", "/ui/sign-in", "", 0,
		"Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(form)))+form, "Set-Cookie"), ";")
	a.heldByOneToken("streams", head("GET", "/ui/events", "", 0, "Cookie: "+cookie))
}

func (a *arena) heldByOneToken(what, request string) {
	a.t.Helper()
	n := a.size(400, 2000)
	a.hold(n, func(i int) net.Conn {
		conn := a.secure(i, a.unauthenticated)
		if conn != nil {
			_, _ = io.WriteString(conn, request)
		}
		return conn
	})
	a.calls()
	held := a.metric("nodehitch_long_polls_in_flight")
	a.c.Figure(what, "%d; %d held", n, held)
	if held > 256 || held == 0 {
		a.t.Errorf("%d %s of one token are held", held, what)
	}
}

func idle(a *arena) {
	n := a.size(400, 2000)
	a.hold(n, func(i int) net.Conn {
		conn := a.secure(i, a.unauthenticated)
		if conn != nil {
			_, _ = io.WriteString(conn, head("GET", "/v1/nodes", a.operator, 0))
		}
		return conn
	})
	a.calls()
	if held := a.metric(`nodehitch_connections{state="authenticated"}`); held > 256+16 || held == 0 {
		a.t.Errorf("%d connections", held)
	}
}

// header is one of the answer to a request.
func (a *arena) header(as *tls.Config, request, name string) string {
	a.t.Helper()
	conn := a.secure(0, as)
	if conn == nil {
		a.t.Fatal("no connection")
	}
	_, err := io.WriteString(conn, request)
	a.must(err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	a.must(err)
	resp.Body.Close()
	return resp.Header.Get(name)
}
