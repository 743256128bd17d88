package failover_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/failover"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const instance = "0b1a5c2e-0000-4000-8000-000000000001"

// world has controllers with one root, and a client that knows some of them.
type world struct {
	t    *testing.T
	root testca.Authority

	mu   sync.Mutex
	said []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, root: testca.Root(t, "root")}
}

// server is a controller, and how many requests it got.
type server struct {
	url  string
	seen atomic.Int32
}

func (w *world) serve(root testca.Authority, answer http.HandlerFunc) *server {
	w.t.Helper()
	s := &server{}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method == http.MethodPut && !bytes.Contains(body, []byte("stack-1")) {
			w.t.Errorf("%s came with %q, %v", r.Method, body, err)
		}
		s.seen.Add(1)
		answer(rw, r)
	}))
	h.TLS = &tls.Config{Certificates: []tls.Certificate{root.Server(w.t, time.Now().Add(time.Hour), "127.0.0.1")}}
	h.Config.ErrorLog = testca.Quiet
	h.StartTLS()
	w.t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

// refusing is the URL of a controller that is not there.
func (w *world) refusing() string {
	w.t.Helper()
	return "https://" + loopback.FreeAddress(w.t)
}

func (w *world) client(urls ...string) *client.Controller {
	w.t.Helper()
	over, err := failover.Over(urls, func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = append(w.said, text)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := client.New(client.Options{BaseURL: urls[0], RootPEM: w.root.PEM(), Over: over})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.CloseIdle)
	return c
}

func (w *world) expectSaid(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(want) != len(w.said) || !slices.EqualFunc(want, w.said, func(a, b string) bool { return strings.Contains(b, a) }) {
		w.t.Errorf("said %q, want %q", w.said, want)
	}
}

func get(ctx context.Context, c *client.Controller) error {
	_, err := client.Read[api.Instance](c.GetInstance(ctx, instance, nil))
	return err
}

func put(ctx context.Context, c *client.Controller) error {
	_, err := client.Read[api.Instance](c.PutInstance(ctx, instance, nil, api.InstanceSpec{StackID: "stack-1"}))
	return err
}

func done(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// problem answers with a problem.
func problem(kind, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		p := api.NewProblem(kind, "")
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", after)
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	}
}

// cut ends the connection when the request has come.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func expectSeen(t *testing.T, s *server, want int32) {
	t.Helper()
	if got := s.seen.Load(); got != want {
		t.Errorf("%s got %d requests, want %d", s.url, got, want)
	}
}

func TestNothingOfTheRequestWasSent(t *testing.T) {
	w := newWorld(t)
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	hanging := "https://" + silent.Addr().String()
	impostor := w.serve(testca.Root(t, "root"), done)
	for name, c := range map[string]struct {
		url  string
		said []string
	}{
		"refused":             {w.refusing(), nil},
		"silent":              {hanging, []string{hanging + ": no connection within 5s; check the route, the firewall and whether the controller runs (trying https://"}},
		"not with our root":   {impostor.url, []string{impostor.url + ": its certificate is signed by an unknown authority"}},
		"reaches no leader":   {w.serve(w.root, problem(api.ProblemNoLeader, "5")).url, nil},
		"a name without host": {"https://nobody.invalid", []string{"https://nobody.invalid: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, root: w.root}
			second := w.serve(w.root, done)
			controller := w.client(c.url, second.url)
			for _, do := range []func(context.Context, *client.Controller) error{put, get, put} {
				if err := do(t.Context(), controller); err != nil {
					t.Error(err)
				}
			}
			expectSeen(t, second, 3)
			w.expectSaid(c.said...)
		})
	}
	t.Cleanup(func() { expectSeen(t, impostor, 0) })
}

// It may have been done: no other controller gets it.
func TestAChangeThatWasSentIsNotMadeTwice(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"the connection is cut": {cut, "may have been done, so no other controller got it: check that before you repeat it"},
		"unavailable":           {problem(api.ProblemUnavailable, "0"), "not available now"},
		"an error":              {problem(api.ProblemInternal, "0"), "unexpected error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first, second := w.serve(w.root, c.answer), w.serve(w.root, done)
			controller := w.client(first.url, second.url)
			if err := put(t.Context(), controller); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			expectSeen(t, first, 1)
			expectSeen(t, second, 0)
		})
	}
}

// A request that only reads may be made at the next controller whatever has happened.
func TestAReadGoesOn(t *testing.T) {
	w := newWorld(t)
	first, second := w.serve(w.root, cut), w.serve(w.root, done)
	c := w.client(first.url, second.url)
	for range 2 {
		if err := get(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	expectSeen(t, first, 1)
	expectSeen(t, second, 2)
}

func TestNoControllerAnswers(t *testing.T) {
	w := newWorld(t)
	a, b := w.refusing(), w.refusing()
	err := put(t.Context(), w.client(a, b))
	var first *client.Unreachable
	if err == nil || !errors.As(err, &first) || first.Where != a || !strings.HasPrefix(err.Error(), "no controller answers\n  "+a+": connection refused") || !strings.Contains(err.Error(), "\n  "+b+": connection refused") {
		t.Errorf("got %v", err)
	}
	// With one URL it is what it was.
	if err := put(t.Context(), w.client(a)); err == nil || !strings.HasPrefix(err.Error(), a+": connection refused") || !strings.HasSuffix(err.Error(), "; nothing listens there; is the controller running?") {
		t.Errorf("got %v", err)
	}
	w.expectSaid()
}

// A takeover: the first is dead, the others reach no leader, until one of them is it.
func TestWaitsForALeader(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	becoming := w.serve(w.root, func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 4 {
			problem(api.ProblemNoLeader, "0")(rw, r)
			return
		}
		done(rw, r)
	})
	if err := put(t.Context(), w.client(w.refusing(), becoming.url)); err != nil {
		t.Error(err)
	}
	expectSeen(t, becoming, 4)
	w.expectSaid("waiting up to 30s for a controller to become the leader")
}

// One URL may lead to several controllers.
func TestWaitsForALeaderAtOneURL(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	s := w.serve(w.root, func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			problem(api.ProblemNoLeader, "0")(rw, r)
			return
		}
		done(rw, r)
	})
	if err := put(t.Context(), w.client(s.url)); err != nil {
		t.Error(err)
	}
	expectSeen(t, s, 2)
}

// A watch asks again by itself, and shows why.
func TestAWatchDoesNotWaitForALeader(t *testing.T) {
	w := newWorld(t)
	first, second := w.serve(w.root, problem(api.ProblemNoLeader, "0")), w.serve(w.root, problem(api.ProblemNoLeader, "0"))
	if err := get(failover.AtOnce(t.Context()), w.client(first.url, second.url)); client.Status(err) != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
	expectSeen(t, first, 1)
	expectSeen(t, second, 1)
	w.expectSaid()
}

// transport answers each request with no-leader.
type transport struct{ seen int }

func (n *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	n.seen++
	w := httptest.NewRecorder()
	problem(api.ProblemNoLeader, "5")(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func TestTheWaitForALeaderEnds(t *testing.T) {
	for name, c := range map[string]struct {
		limit  time.Duration
		cancel bool
		seen   int
	}{
		"nobody becomes it":  {time.Hour, false, 7},
		"the command's time": {12 * time.Second, false, 3},
		"Ctrl-C":             {12 * time.Second, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				if c.cancel {
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(c.limit, cancel)
				}
				over, err := failover.Over([]string{"https://a"}, func(string) {})
				if err != nil {
					t.Fatal(err)
				}
				next := &transport{}
				r, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://a", strings.NewReader("x"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := over(next).RoundTrip(r) //nolint:bodyclose // ProblemOf closes it
				switch {
				case c.cancel:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				case err != nil:
					t.Error(err)
				default:
					if err := client.ProblemOf(resp); client.Status(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "no leader can be reached now") {
						t.Errorf("got %v", err)
					}
				}
				if next.seen != c.seen {
					t.Errorf("asked %d times, want %d", next.seen, c.seen)
				}
			})
		})
	}
}
