package abuse

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

const (
	putInstance = "/v1/vnf_instances/" + instance
	mib         = 1 << 20
)

// body is an invalid request body.
type body struct {
	name, shows string
	// text is the body, of at most a mebibyte unless it is what is wrong.
	text func() io.Reader
	// length is announced; -1 for chunks.
	length  int
	headers []string
	// status is what is answered; a body that is far too long may also be cut off.
	status int
	// answer is how long an answer may be.
	answer int
}

func fill(part string, size int) string { return strings.Repeat(part, size/len(part)) }

func text(s string) body {
	return body{text: func() io.Reader { return strings.NewReader(s) }, length: len(s), status: http.StatusBadRequest, answer: 64 << 10}
}

func (b body) named(name, shows string) body {
	b.name, b.shows = name, shows
	return b
}

// zeros are n bytes in chunks of HTTP where asked.
func zeros(n int, chunked bool) io.Reader {
	piece := strings.Repeat("0", 64<<10)
	if chunked {
		piece = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
	}
	var parts []io.Reader
	for range n / (64 << 10) {
		parts = append(parts, strings.NewReader(piece))
	}
	return io.MultiReader(parts...)
}

var bodies = []body{
	{name: "50 MB", shows: "a body of 50 MB is refused unread", length: 50e6, status: http.StatusRequestEntityTooLarge, answer: 4 << 10,
		text: func() io.Reader { return zeros(50e6, false) }},
	{name: "50 MB in chunks", shows: "a body of 50 MB without a length is cut off at the limit", length: -1, status: http.StatusRequestEntityTooLarge, answer: 4 << 10,
		text: func() io.Reader { return zeros(50e6, true) }},
	text(fill("[", mib-100)).named("a million brackets", "nesting is bounded"),
	text(fill(`{"a":`, mib-100)).named("objects in objects", "nesting is bounded"),
	text("["+fill("[],", mib-100)+"[]]").named("350,000 lists", "the number of values in a document is bounded"),
	text(`{`+fill(`"a":0,`, mib-100)+`"a":0}`).named("a member 170,000 times", "duplicate members are reported, up to a limit"),
	text(`{"`+fill("k", mib/2)+`":{`+fill(`"a":0,"a":0,`, mib/3)+`"a":0}}`).named("faults in a member with a long name", "an answer does not repeat a name of half a megabyte a hundred times"),
	text(`{"stackId":`+fill("9", mib-100)+`}`).named("a number of a million digits", "a huge number is refused"),
	text(`{"additionalParams":{"k8s_cluster_installation_param":{`+unknown(mib-200)+`}}}`).named("100,000 unknown names", "an answer lists a limited number of faults"),
	{name: "compressed", shows: "a compressed body is not unpacked", length: 4, headers: []string{"Content-Encoding: gzip"},
		status: http.StatusUnsupportedMediaType, answer: 4 << 10, text: func() io.Reader { return strings.NewReader("\x1f\x8b\x08\x00") }},
}

// unknown is this much of members that nothing knows.
func unknown(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `"u%x":0,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestBodies sends each body by many at a time: as an operator, as a node that was
// compromised, and as an unauthenticated caller with a made-up token.
func TestBodies(t *testing.T) {
	for _, b := range bodies {
		t.Run(b.name, func(t *testing.T) {
			c := results.Begin(t, "abuse", "body: "+b.name, b.shows)
			a := open(t, c)
			senders, answered, madeUp, given := a.size(4, 20), atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
			w := a.during(func() {
				together(3*senders, func(i int) {
					who, as, status := head("PUT", putInstance, a.operator, b.length, b.headers...), a.unauthenticated, b.status
					switch i % 3 {
					case 1:
						who, as = head("PUT", "/v1/node/status", "", b.length, b.headers...), a.node
					case 2:
						who = head("POST", "/v1/enroll", "made.up", b.length, b.headers...)
					}
					got, answer := a.send(i, as, who, b.text())
					// A connection may be cut before the answer is read: the body is too large,
					// the node has other connections, or the machine is too busy. If there is an
					// answer, it is the right one.
					refused := got == http.StatusRequestEntityTooLarge && i%3 != 0
					if got != status && got != 0 && !refused {
						t.Errorf("%.30q is answered %d %.300q, expected %d", who, got, answer, status)
					}
					answered.Add(int64(min(got, 1)))
					if i%3 == 2 { // the token is made up
						madeUp.Add(int64(min(got, 1)))
						if a.gives(got, answer) {
							given.Add(1)
						}
					}
					if len(answer) > b.answer {
						t.Errorf("%.30q: the answer has %d bytes: %.200q", who, len(answer), answer)
					}
				})
			})
			c.Unauthorised(given.Load())
			c.Figure("bodies", "%d; %d answered, %d of them with a made-up token", 3*senders, answered.Load(), madeUp.Load())
			if answered.Load() == 0 {
				t.Error("none was answered")
			}
			a.grew(w, 100*mib)
		})
	}
}
