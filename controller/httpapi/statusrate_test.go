package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

const anyStatus = `{"epoch":1,"observedGeneration":1,"observedDigest":"x","conditions":[],"facts":{"hostname":"h"}}`

// A node that reports too often is refused before its body is read, is told how long to wait,
// and is taken again after that. The log says once that it began.
func TestANodeThatFloodsStatusesIsLimited(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *httpapi.Options) {
		o.Times = httpapi.Times{Body: time.Minute, Answer: time.Minute, Stall: time.Minute}
		o.Now = func() time.Time { return now }
	})
	node, _ := w.enroll()
	taken, refused := 0, 0
	var last answer
	for range 100 {
		last = w.call(node, "PUT", "/v1/node/status", anyStatus)
		switch last.status {
		case http.StatusNoContent:
			taken++
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("answered %d %s", last.status, last.body)
		}
	}
	if taken != 60 || refused != 40 {
		t.Errorf("%d taken and %d refused of 100 at once, want the 60 of a full bucket", taken, refused)
	}
	if last.problem.Type != wire.ProblemTooMany || last.header.Get("Retry-After") != "1" {
		t.Errorf("refused with %s, Retry-After %q", last.body, last.header.Get("Retry-After"))
	}
	if broken := w.call(node, "PUT", "/v1/node/status", "{"); broken.status != http.StatusTooManyRequests {
		t.Errorf("a body that cannot be read is answered %d: it was decoded first", broken.status)
	}
	if got := strings.Count(w.log.String(), `msg="a node sends statuses too often`); got != 1 {
		t.Errorf("the log says %d times that the node is limited", got)
	}
	if poll := w.call(node, "GET", "/v1/node/config", ""); poll.status != http.StatusOK {
		t.Errorf("the node's poll is answered %d", poll.status)
	}
	now = now.Add(time.Second)
	if again := w.call(node, "PUT", "/v1/node/status", anyStatus); again.status != http.StatusNoContent {
		t.Errorf("after Retry-After it is answered %d %s", again.status, again.body)
	}
}
