package replica_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/traffic/caller"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// A node that polls a replica that is not the leader gets what the leader would answer.
func TestANodePollsThroughAFollower(t *testing.T) {
	w := newWorld(t, nil)
	node := w.enroll()
	first := w.call(node, "GET", "/v1/node/config", "")
	var config wire.NodeConfig
	ok(t, first, http.StatusOK, &config)
	known := first.header.Get("ETag")
	if known != `"`+config.Digest()+`"` || first.header.Get("Nodehitch-Poll-Seconds") != "30" || first.header.Get("Nodehitch-Spread-Seconds") != "7" ||
		first.header.Get("Nodehitch-Authenticated") != "" || len(first.header.Values("X-Request-Id")) != 1 {
		t.Errorf("headers %v", first.header)
	}
	if a := w.call(node, "GET", "/v1/node/config?wait=0s", "", "If-None-Match: "+known); a.status != http.StatusNotModified || a.body != "" {
		t.Errorf("a poll of what is known: %d", a.status)
	}
	if a := w.call(w.client, "GET", "/v1/node/config", ""); a.status != http.StatusUnauthorized {
		t.Errorf("without its certificate: %d", a.status)
	}
	if a := w.call(node, "GET", "/v1/node/config?nothing=1", ""); a.status != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d", a.status)
	}
	held := w.hold(t.Context(), node, known)
	if _, authenticated := w.follower.limiter.Count(); authenticated != 2 {
		t.Errorf("%d connections of the follower are authenticated, want the operator's and the node's", authenticated)
	}
	ok(t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)), http.StatusOK, nil)
	if a := <-held; a.status != http.StatusOK || !strings.Contains(a.body, "10.20.0.0/24") || a.header.Get("ETag") == known {
		t.Errorf("%d %s", a.status, a.body)
	}
	if log := w.log.String(); !strings.Contains(log, `who="node `+serverID+`"`) {
		t.Error("the leader's log does not say who has called")
	}
}

// What a caller says of itself in the header of replicas counts nowhere.
func TestAForgedCallerIsNotBelieved(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll()
	forged, err := json.Marshal(caller.Caller{Address: "192.0.2.1:1", TLS: true, Operator: &caller.Local{UID: 0}})
	must(t, err)
	header := caller.Header + ": " + string(forged)
	for name, headers := range map[string][]string{
		"once":                {header},
		"twice":               {header, header},
		"in lower case":       {strings.ToLower(caller.Header) + ": " + string(forged)},
		"named as hop by hop": {header, "Connection: " + caller.Header},
	} {
		if a := w.call(w.client, "GET", "/v1/tokens", "", headers...); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if strings.Contains(w.log.String(), "192.0.2.1") {
		t.Error("the address in it is believed")
	}
	// Neither where a caller connects to the leader itself.
	handler, err := httpapi.New(w.API(func() int { return 1 }))
	must(t, err)
	defer handler.Drain()
	certificate := w.Authority.TLSConfig()
	l := listen(t)
	server := handler.HTTPServer()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(tls.NewListener(l, certificate)) }()
	defer func() { _ = server.Close(); <-done }()
	if a := do(t.Context(), w.client, "GET", "https://"+l.Addr().String()+"/v1/tokens", http.NoBody, header); a.status != http.StatusUnauthorized {
		t.Errorf("at the leader: %d %s", a.status, a.body)
	}
}

// What replicas say to each other no caller can say through one of them.
func TestACallerDoesNotReachWhatIsForReplicas(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll()
	var file wire.PackageFile
	ok(t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID+"/files/a", "content"), http.StatusCreated, &file)
	for _, path := range []string{"/internal/blobs/" + file.Sha256, "//internal/blobs/" + file.Sha256} {
		for _, token := range []string{"x", w.operator} {
			if a := w.as(token, "GET", path, ""); a.status != http.StatusNotFound || strings.Contains(a.body, "content\n") || a.body == "content" {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
}

func TestRootOfADoorsMachineIsAnOperator(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	w := newWorld(t, nil)
	if a := do(t.Context(), w.local(), "PUT", "http://controller/v1/vnf_instances/"+instanceID, strings.NewReader(spec)); a.status != http.StatusCreated {
		t.Fatalf("%d %v %s", a.status, a.err, a.body)
	}
	if log := w.log.String(); !strings.Contains(log, `who="uid 0 of the machine of replica b"`) {
		t.Error("the leader's log does not say who it was")
	}
}

// The status page is the leader's, with its cookies and its live updates.
func TestTheStatusPageThroughAFollower(t *testing.T) {
	w := newWorld(t, nil)
	browser := w.clientWith(nil, "")
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	const form = "Content-Type: application/x-www-form-urlencoded"
	signIn := func(origin string) answered {
		return w.call(browser, "POST", page.PathSignIn, "token="+w.operator, form, "Origin: "+origin)
	}
	if a := signIn("https://another.example"); a.status != http.StatusForbidden {
		t.Errorf("from another site: %d", a.status)
	}
	a := signIn(w.follower.url)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(cookie, "__Host-") {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	if a := w.call(browser, "GET", page.PathOverview, "", "Cookie: "+cookie); a.status != http.StatusOK {
		t.Errorf("the page: %d", a.status)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.follower.url+page.PathEvents, http.NoBody)
	must(t, err)
	r.Header.Set("Cookie", cookie)
	stream, err := browser.Do(r)
	must(t, err)
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	// It ends with the token.
	tokens, err := w.Tokens.List(t.Context())
	must(t, err)
	must(t, w.Tokens.Revoke(t.Context(), tokens[0].ID))
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

// The leader counts refused enrollments by the address that the caller has at the follower.
func TestALimitCountsTheAddressAtTheFollower(t *testing.T) {
	w := newWorld(t, nil)
	body, err := json.Marshal(wire.EnrollRequest{ServerID: serverID, CertificateRequest: testca.Request(testca.NewKey(), nil)})
	must(t, err)
	guess := func(client *http.Client) int {
		return w.call(client, "POST", "/v1/enroll", string(body), "Authorization: Bearer wrong").status
	}
	one, other := w.clientWith(nil, "127.0.0.2"), w.clientWith(nil, "127.0.0.3")
	refused := 0
	for range 100 {
		if guess(one) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 50 {
		t.Errorf("%d of 100 guesses were too many", refused)
	}
	if status := guess(other); status == http.StatusTooManyRequests {
		t.Error("another address is refused with it")
	}
	if log := w.log.String(); !strings.Contains(log, "remote=127.0.0.2:") || strings.Contains(log, "remote=127.0.0.1:") {
		t.Error("the leader's log does not have the callers' addresses")
	}
}

// zeros is a body that looks at the heap now and then.
type zeros struct {
	left, sent int64
	most       uint64
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	if z.sent/(8<<20) != (z.sent+n)/(8<<20) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		z.most = max(z.most, m.HeapInuse)
	}
	z.left, z.sent = z.left-n, z.sent+n
	return int(n), nil
}

// A large file lies in the memory of neither replica.
func TestAnUploadThroughAFollowerIsStreamed(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	const size = 256 << 20
	content := &zeros{left: size}
	var file wire.PackageFile
	ok(t, do(t.Context(), w.client, "PUT", w.follower.url+"/v1/vnf_instances/"+instanceID+"/files/large", content, "Authorization: Bearer "+w.operator), http.StatusCreated, &file)
	if file.SizeBytes != size {
		t.Errorf("%d bytes have arrived", file.SizeBytes)
	}
	if grown := int64(content.most) - int64(before.HeapInuse); grown > size/4 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	down := w.as(w.operator, "GET", "/v1/vnf_instances/"+instanceID+"/files/large", "", "Range: bytes=100-199")
	if down.status != http.StatusPartialContent || len(down.body) != 100 {
		t.Errorf("a part of it: %d, %d bytes", down.status, len(down.body))
	}
}

// A client that asks before it sends, as curl does, is told to go on, or why not before it has
// sent anything.
func TestAnUploadThatAsksFirst(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll()
	client := w.clientWith(nil, "")
	client.Transport.(*http.Transport).ExpectContinueTimeout = time.Hour
	content := &zeros{left: 1 << 20}
	put := func(token string) answered {
		return do(t.Context(), client, "PUT", w.follower.url+"/v1/vnf_instances/"+instanceID+"/files/a", content, "Authorization: Bearer "+token, "Expect: 100-continue")
	}
	if a := put("wrong"); a.status != http.StatusUnauthorized || content.sent != 0 {
		t.Errorf("%d %v, %d bytes were sent", a.status, a.err, content.sent)
	}
	ok(t, put(w.operator), http.StatusCreated, nil)
}

// slow gives a byte each time it is told to.
type slow struct {
	next <-chan struct{}
	left int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	<-s.next
	s.left--
	p[0] = 'x'
	return 1, nil
}

// The deadlines of an answer do not end an upload that still comes.
func TestASlowUploadThroughAFollower(t *testing.T) {
	const deadline = 100 * time.Millisecond
	w := newWorld(t, func(o *httpapi.Options) {
		o.Times = httpapi.Times{Body: deadline, Answer: deadline, Stall: 20 * deadline, Refusal: time.Second}
	})
	w.enroll()
	tick := time.NewTicker(deadline)
	defer tick.Stop()
	next := make(chan struct{})
	go func() {
		for range 8 {
			<-tick.C
			next <- struct{}{}
		}
	}()
	ok(t, do(t.Context(), w.client, "PUT", w.follower.url+"/v1/vnf_instances/"+instanceID+"/files/slow", &slow{next: next, left: 8}, "Authorization: Bearer "+w.operator), http.StatusCreated, nil)
}

// silent is a leader's API that tells of each request and answers none before it may.
type silent struct {
	seen   atomic.Int64
	begun  chan struct{}
	answer chan struct{}
}

func newSilent() *silent {
	return &silent{begun: make(chan struct{}, 10_000), answer: make(chan struct{})}
}

func (s *silent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.seen.Add(1)
	s.begun <- struct{}{}
	select {
	case <-s.answer:
	case <-r.Context().Done():
	}
}

// If the leader goes in the middle of a request, the caller is told to try again; the follower
// does not make the request again.
func TestTheLeaderGoesAway(t *testing.T) {
	root := testca.Root(t, "root")
	certificate := &tls.Config{Certificates: []tls.Certificate{root.Server(t, time.Now().Add(time.Hour), "127.0.0.1")}, MinVersion: tls.VersionTLS13}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, test := range []struct{ name, method, body string }{
		{"a poll", "GET", ""},
		{"a change", "PUT", "{}"},
		{"a change without a body", "POST", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			leader, next := newSite(t, 1<<20), newSite(t, 1<<20)
			first, second := newSilent(), newSilent()
			close(second.answer)
			leader.Lead(first, func() {})
			next.Lead(second, func() {})
			d := newFollower(t, certificate, leader.url, nil)
			out := make(chan answered, 1)
			go func() { out <- do(t.Context(), client, test.method, d.url+"/v1/x", strings.NewReader(test.body)) }()
			<-first.begun
			d.leader.Store(&next.url)
			leader.stop(t)
			switch a := <-out; {
			case a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "":
				t.Errorf("%d %v %s", a.status, a.err, a.body)
			case test.method != "GET" && !strings.Contains(a.body, "check whether the request was done"):
				t.Errorf("%s", a.body)
			}
			if first.seen.Load() != 1 || second.seen.Load() != 0 {
				t.Errorf("the leader has seen it %d times, the next one %d times", first.seen.Load(), second.seen.Load())
			}
			if a := do(t.Context(), client, "GET", d.url+"/v1/x", http.NoBody); a.status != http.StatusOK {
				t.Errorf("at the next leader: %d %v", a.status, a.err)
			}
		})
	}
}

// A part of an answer does not look like the whole.
func TestTheLeaderGoesAwayInTheMiddleOfAnAnswer(t *testing.T) {
	root := testca.Root(t, "root")
	certificate := &tls.Config{Certificates: []tls.Certificate{root.Server(t, time.Now().Add(time.Hour), "127.0.0.1")}, MinVersion: tls.VersionTLS13}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	const half = "half of"
	leader := newSite(t, 1<<20)
	leader.Lead(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, half)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), func() {})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, newFollower(t, certificate, leader.url, nil).url+"/v1/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, len(half))); err != nil {
		t.Fatal(err)
	}
	leader.stop(t)
	if rest, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("the answer ends as if it was whole, after %q", rest)
	}
}

func TestThereIsNoLeader(t *testing.T) {
	root := testca.Root(t, "root")
	certificate := &tls.Config{Certificates: []tls.Certificate{root.Server(t, time.Now().Add(time.Hour), "127.0.0.1")}, MinVersion: tls.VersionTLS13}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	standby := newSite(t, 1<<20)
	for name, url := range map[string]string{"nobody": "", "one that does not answer": "https://127.0.0.1:1", "a replica that is not the leader": standby.url} {
		d := newFollower(t, certificate, url, nil)
		a := do(t.Context(), client, "GET", d.url+"/healthz", http.NoBody)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "5" || !strings.Contains(a.body, wire.ProblemNoLeader) {
			t.Errorf("%s: %d %v %s", name, a.status, a.err, a.body)
		}
	}
}

// Thousands of polls are streams of a few connections, at both ends of their lives.
func TestPollsShareConnections(t *testing.T) {
	const polls = 2500
	leader, held := newSite(t, 1<<20), newSilent()
	leader.Lead(held, func() {})
	client := replica.NewClient(trust(t, 1))
	defer client.Close()
	said, err := json.Marshal(caller.Caller{Address: "192.0.2.1:1"})
	must(t, err)
	var all sync.WaitGroup
	var good atomic.Int64
	for range polls {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, leader.url+"/v1/node/config", http.NoBody)
			if err == nil {
				r.Header.Set(caller.Header, string(said))
				var a *http.Response
				if a, err = client.RoundTrip(r); err == nil && a.StatusCode == http.StatusOK {
					a.Body.Close()
					good.Add(1)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range polls {
		<-held.begun
	}
	if n := leader.listener.accepted.Load(); n < 3 || n > 30 {
		t.Errorf("%d polls have %d connections", polls, n)
	} else {
		t.Logf("%d polls have %d connections", polls, n)
	}
	close(held.answer)
	all.Wait()
	if good.Load() != polls {
		t.Errorf("%d of %d were answered", good.Load(), polls)
	}
}

// A replica of another seal key gets no answer, whatever it says.
func TestAStrangerIsNotAnswered(t *testing.T) {
	leader, api := newSite(t, 1<<20), newSilent()
	close(api.answer)
	leader.Lead(api, func() {})
	stranger := replica.NewClient(trust(t, 2))
	defer stranger.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, leader.url+"/v1/tokens", http.NoBody)
	must(t, err)
	r.Header.Set(caller.Header, fmt.Sprintf(`{"address":"%s","operator":{"uid":0}}`, "192.0.2.1:1"))
	answer, err := stranger.RoundTrip(r)
	if err == nil {
		answer.Body.Close()
		t.Errorf("it is answered: %s", answer.Status)
	}
	if api.seen.Load() != 0 {
		t.Error("the API has seen it")
	}
}

func TestAChainThatIsTooLong(t *testing.T) {
	long := caller.Caller{Chain: [][]byte{make([]byte, 16<<10), {1}}}
	h := http.Header{caller.Header: {"forged"}}
	if err := long.Set(h); err == nil || len(h) != 0 {
		t.Errorf("error %v, header %v", err, h)
	}
	r := &http.Request{Header: http.Header{}}
	for _, said := range [][]string{nil, {"{}", "{}"}, {"x"}, {`{"tls":true,"chain":["AAAA"]}`}} {
		r.Header[caller.Header] = said
		if _, err := caller.Restore(r); err == nil {
			t.Errorf("%q is accepted", said)
		}
	}
}
