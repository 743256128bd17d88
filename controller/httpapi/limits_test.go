package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// hasty is a controller with short limits.
func hasty(o *httpapi.Options) {
	o.Times = httpapi.Times{Body: 500 * time.Millisecond, Answer: 500 * time.Millisecond, Stall: 500 * time.Millisecond}
}

// begin sends the beginning of a request as root on the unix socket, where the same
// times go as with TLS.
func (w *world) begin(text string) net.Conn {
	w.t.Helper()
	conn, err := new(net.Dialer).DialContext(w.t.Context(), "unix", w.socket)
	w.must(err)
	w.t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	w.must(err)
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// isCut reads until the connection ends, which it has to do by the other's doing.
func isCut(t *testing.T, conn io.Reader) (read int64) {
	t.Helper()
	read, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is kept")
	}
	return read
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, hasty)
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"of a PUT":           {"PUT /v1/vnf_instances/" + instanceID, http.StatusBadRequest},
		"of an enrollment":   {"POST /v1/enroll", http.StatusBadRequest},
		"of an upload":       {"PUT /v1/vnf_instances/" + instanceID + "/files/a", http.StatusBadRequest},
		"no such route":      {"POST /v1/nothing", http.StatusNotFound},
		"of a wrong method":  {"POST /healthz", http.StatusMethodNotAllowed},
		"that nothing needs": {"GET /healthz", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.begin(test.request + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
			answers := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answers, nil)
			w.must(err)
			resp.Body.Close()
			if resp.StatusCode != test.status {
				t.Errorf("answered %s, want %d", resp.Status, test.status)
			}
			isCut(t, answers)
		})
	}
}

func TestAnUploadMayBeSlowAndNotStandStill(t *testing.T) {
	w := newWorld(t, hasty)
	const pieces = 20
	conn := w.begin(fmt.Sprintf("PUT /v1/vnf_instances/%s/files/slow HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", instanceID, pieces))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range pieces { // twice the time that it may stand still
		<-tick.C
		_, err := io.WriteString(conn, "x")
		w.must(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.must(err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("answered %s", resp.Status)
	}
}

func TestADownloadThatTheClientDoesNotReadIsCutOff(t *testing.T) {
	w := newWorld(t, hasty)
	const size = 256 << 20 // more than the kernel buffers for a connection
	file := filepath.Join(w.dir, "nodehitch-agent-amd64")
	w.must(os.WriteFile(file, nil, 0o600))
	w.must(os.Truncate(file, size))
	conn := w.begin("GET /v1/agent/amd64 HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "the download is given up", func() bool { return strings.Contains(w.log.String(), "operation=getAgent") })
	if n := isCut(t, conn); n >= size {
		t.Errorf("all %d bytes came", n)
	}
}

func TestAPollOutlivesTheTimesOfARequest(t *testing.T) {
	w := newWorld(t, hasty, pollSeconds(2))
	node, _ := w.enroll()
	if a := w.call(node, "GET", "/v1/node/config", "", "If-None-Match: "+etag(t, w, node)); a.status != http.StatusNotModified {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestAnswersRepeatNoLongNames(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("k", 100_000)
	a := w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, `{"`+long+`":{`+strings.Repeat(`"a":0,"b":0,`, 20_000)+`"a":0}}`)
	if a.status != http.StatusBadRequest || len(a.body) > 10_000 || len(a.problem.InvalidParams) == 0 {
		t.Errorf("%d with %d bytes: %.300s", a.status, len(a.body), a.body)
	}
}

func TestUnauthenticatedCallersAndNodesSendLittle(t *testing.T) {
	w := newWorld(t)
	body := `{"serverId":"` + strings.Repeat("x", 100_000) + `"}`
	if a := w.as("made.up", "POST", "/v1/enroll", body); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	if a := w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, body); a.status != http.StatusBadRequest {
		t.Errorf("%d %.200s", a.status, a.body)
	}
}

// slowly is a slow cloud, which gives up when the caller does.
type slowly struct {
	stack.Inline
	pause time.Duration
}

func (s slowly) Resolve(ctx context.Context, r stack.Request) (*wire.Topology, error) {
	select {
	case <-time.After(s.pause):
		return s.Inline.Resolve(ctx, r)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A request that a cloud is asked for may take longer than others.
func TestARequestWaitsForTheCloud(t *testing.T) {
	w := newWorld(t, hasty)
	w.Lifecycle.Instances.Observer.Source = slowly{pause: time.Second}
	if a := w.call(w.client, http.MethodPut, "/v1/vnf_instances/"+instanceID, spec, "Authorization: Bearer "+w.operator); a.status != http.StatusCreated {
		t.Errorf("PUT is answered %d: %s", a.status, a.body)
	}
}

// A caller that asks for lists and does not read them has few in memory. Lists that are waited for
// count for nothing, and others are served.
func TestACallerHasFewListsInMemory(t *testing.T) {
	w := newWorld(t, func(o *httpapi.Options) {
		o.Times = httpapi.Times{Body: time.Minute, Answer: time.Minute, Stall: time.Minute, List: 300 * time.Millisecond}
	})
	w.ok(w.as(w.operator, "PUT", instancePath, workers(1000)), http.StatusCreated, nil)
	const list = "GET /v1/nodes HTTP/1.1\r\nHost: controller\r\n"
	etag := w.as(w.operator, "GET", "/v1/operations", "").header.Get("ETag")
	for range 20 {
		w.begin("GET /v1/operations?wait=60s HTTP/1.1\r\nHost: controller\r\nIf-None-Match: " + etag + "\r\n\r\n")
	}
	var unread []net.Conn
	for range 8 {
		conn := w.begin(list + "\r\n")
		var status [len("HTTP/1.1 200")]byte
		_, err := io.ReadFull(conn, status[:]) // the rest does not fit into the socket
		w.must(err)
		if got := string(status[:]); got != "HTTP/1.1 200" {
			t.Fatalf("one of eight lists is answered %s", got)
		}
		unread = append(unread, conn)
	}
	answer := func() int {
		t.Helper()
		response, err := http.ReadResponse(bufio.NewReader(w.begin(list+"Connection: close\r\n\r\n")), nil)
		w.must(err)
		defer response.Body.Close()
		return response.StatusCode
	}
	if got := answer(); got != http.StatusTooManyRequests {
		t.Errorf("the ninth list is answered %d", got)
	}
	w.ok(w.as(w.viewer, "GET", "/v1/nodes", ""), http.StatusOK, nil)
	unread[0].Close()
	eventually(t, "the end of one makes place for another", func() bool { return answer() == http.StatusOK })
}
