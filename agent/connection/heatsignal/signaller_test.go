package heatsignal

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

const signedURL = "/v1/waitcondition/arn%3Aopenstack%3Aheat%3A%3Ap%3Astacks%2Fs%2Fid%2Fresources%2Fh?SignatureVersion=2&Signature=hunter2%2F%3D"

// heat answers as heat-api-cfn does; the test sets the answers.
type heat struct {
	mu      sync.Mutex
	answers []int // the next ones; then 200
	got     []string
	bodies  []map[string]string
}

func (h *heat) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	h.got = append(h.got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" token="+r.Header.Get("X-Auth-Token"))
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	h.bodies = append(h.bodies, body)
	code := http.StatusOK
	if len(h.answers) > 0 {
		code, h.answers = h.answers[0], h.answers[1:]
	}
	if code == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("Signature=hunter2"))}, nil
}

func (h *heat) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.got)
}

// machine is one with an agent, whose status the test sets.
type machine struct {
	t       *testing.T
	state   *state.Directory
	heat    *heat
	token   string
	log     strings.Builder
	mu      sync.Mutex
	status  status.Status
	changed chan struct{}
}

func newMachine(t *testing.T, answers ...int) *machine {
	d, err := state.Open(t.TempDir() + "/agent")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, state: d, heat: &heat{answers: answers}, changed: make(chan struct{}, 1)}
	t.Cleanup(func() {
		if strings.Contains(m.log.String(), "hunter2") || strings.Contains(m.log.String(), "waitcondition") {
			t.Errorf("the URL is in the log:\n%s", m.log.String())
		}
	})
	return m
}

func (m *machine) is(s status.Status) {
	m.mu.Lock()
	m.status = s
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run runs the signaller of one process until it returns or ctx is done.
func (m *machine) run(ctx context.Context, url string) error {
	s := New(Where{URL: url, Token: m.token}, m.state, slog.New(slog.NewTextHandler(&m.log, nil)))
	s.client.Transport = m.heat
	return s.Run(ctx, m.changed, func() status.Status {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.status
	})
}

func converged() status.Status { return at(3, 3, 0, ready(api.ConditionTrue)) }

func TestToldOnceInHeatsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		done := make(chan error)
		go func() { done <- m.run(t.Context(), "https://heat.example:8000"+signedURL) }()
		m.is(at(3, 0, 0, ready(api.ConditionFalse)))
		synctest.Wait()
		if m.heat.count() != 0 {
			t.Error("told before there is anything to tell")
		}
		m.is(converged())
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"PUT https://heat.example:8000" + signedURL + " application/json token="}, m.heat.got); diff != "" {
			t.Error(diff)
		}
		want := map[string]string{"Status": "SUCCESS", "Reason": "converged to generation 3", "UniqueId": server, "Data": "nodehitch-agent v1"}
		if diff := cmp.Diff(want, m.heat.bodies[0]); diff != "" {
			t.Error(diff)
		}
		// A restart, and a machine whose condition fails after it had converged.
		m.is(at(4, 3, 4, ready(api.ConditionFalse), foreign("xfs")))
		if err := m.run(t.Context(), "https://heat.example:8000"+signedURL); err != nil || m.heat.count() != 1 {
			t.Errorf("%v, told %d times; want once", err, m.heat.count())
		}
		// A copy of the disk is another server, with a URL of its own.
		m.is(converged())
		if err := m.run(t.Context(), "https://heat.example:8000"+signedURL+"2"); err != nil || m.heat.count() != 2 {
			t.Errorf("%v, told %d times; want the second URL too", err, m.heat.count())
		}
	})
}

func TestItIsTriedUntilHeatTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 0, 503, 403, 301)
		m.is(converged())
		begun := time.Now()
		if err := m.run(t.Context(), "http://heat.example"+signedURL); err != nil {
			t.Fatal(err)
		}
		if n := m.heat.count(); n != 5 {
			t.Errorf("%d attempts, want 5", n)
		}
		if took := time.Since(begun); took < 5*time.Second || took > 12*time.Second {
			t.Errorf("took %v; want waits of about 1, 1.5, 2.25 and 3.4 s", took)
		}
		for _, want := range []string{"unexpected EOF", "it answered 503", "it answered 403: the stack no longer waits", "it answered 301"} {
			if !strings.Contains(m.log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, m.log.String())
			}
		}
	})
}

// heat-api, with the token of the handle's user, has another message for the same.
func TestATokenOfTheHandle(t *testing.T) {
	m := newMachine(t)
	m.token = "hunter2"
	m.is(converged())
	const url = "https://heat.example:8004/v1/p/stacks/s/id/resources/waitcondition/signal"
	if err := m.run(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"POST " + url + " application/json token=hunter2"}, m.heat.got); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{"status": "SUCCESS", "reason": "converged to generation 3", "id": server, "data": "nodehitch-agent v1"}
	if diff := cmp.Diff(want, m.heat.bodies[0]); diff != "" {
		t.Error(diff)
	}
}

// What failed at the first attempt may succeed at the next.
func TestWhatIsToldIsWhatIsSoThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 503)
		m.is(at(3, 0, 3, ready(api.ConditionFalse), foreign("xfs")))
		done := make(chan error)
		go func() { done <- m.run(t.Context(), "http://heat.example"+signedURL) }()
		synctest.Wait()
		m.is(converged())
		if err := <-done; err != nil || m.heat.bodies[0]["Status"] != "FAILURE" || m.heat.bodies[1]["Status"] != "SUCCESS" {
			t.Errorf("%v, told %v", err, m.heat.bodies)
		}
	})
}

func TestSignallingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		for range 1000 {
			m.heat.answers = append(m.heat.answers, 404)
		}
		m.is(converged())
		begun := time.Now()
		if err := m.run(t.Context(), "http://heat.example"+signedURL); err != nil {
			t.Fatal(err)
		}
		took, tried := time.Since(begun), m.heat.count()
		if took < longestWait || took > longestWait+10*time.Minute || tried > 200 {
			t.Errorf("gave up after %v and %d attempts", took, tried)
		}
		if err := m.run(t.Context(), "http://heat.example"+signedURL); err != nil || m.heat.count() != tried {
			t.Errorf("%v, %d attempts after a restart", err, m.heat.count()-tried)
		}
		if n := strings.Count(m.log.String(), "not signalled yet"); n != 1 {
			t.Errorf("the same refusal is logged %d times", n)
		}
	})
}

func TestAStopEndsIt(t *testing.T) {
	for name, s := range map[string]status.Status{"waiting for the machine": {}, "waiting for Heat": converged()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, 503, 503, 503)
				m.is(s)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if err := m.run(ctx, "http://heat.example"+signedURL); err != context.DeadlineExceeded { //nolint:errorlint // ctx's own
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// Over the wire: a certificate that the system does not trust, and a redirect.
func TestWhomItTrusts(t *testing.T) {
	var reached int
	heat := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer heat.Close()
	heat.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	redirect := httptest.NewServer(http.RedirectHandler(heat.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	for url, want := range map[string]string{heat.URL: "certificate", redirect.URL: "it answered 307"} {
		d, _ := state.Open(t.TempDir() + "/agent")
		err := New(Where{URL: url + signedURL}, d, slog.New(slog.DiscardHandler)).send(t.Context(), Signal{Status: success})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if reached != 0 {
		t.Error("a signal reached who is not trusted")
	}
}
