package gate

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is an HTTPS server behind a gate.
type house struct {
	*Gate
	t       *testing.T
	address string
	client  *tls.Config
	mu      sync.Mutex
	events  map[string]int
}

func build(t *testing.T, change func(*Limits)) *house {
	t.Helper()
	limits := LimitsFor(1024)
	limits.Turns, limits.Strangers, limits.PerSource = 1, 400, 400
	change(&limits)
	h := &house{t: t, events: map[string]int{}}
	h.Gate = &Gate{Limits: limits, Log: slog.New(slog.DiscardHandler), Observe: func(event string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events[event]++
	}}
	borrowed := httptest.NewTLSServer(nil) // for its certificate
	borrowed.Close()
	h.client = borrowed.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	h.client.ServerName = "example.com"
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = inner.Addr().String()
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, ConnContext: Context, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("Who"); who != "" {
			Known(r.Context(), who, 2)
		}
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(h.Listener(inner, &tls.Config{Certificates: borrowed.TLS.Certificates, MinVersion: tls.VersionTLS13}))
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
		until(t, "all are gone", func() bool { a, b := h.Count(); return a+b == 0 })
	})
	return h
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// dial connects and says nothing.
func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

// get makes a request on a connection of its own; the answer is what follows the
// header.
func (h *house) get(who string) (string, error) {
	c, err := (&tls.Dialer{Config: h.client}).DialContext(h.t.Context(), "tcp", h.address)
	if err != nil {
		return "", err
	}
	h.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nWho: "+who+"\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func (h *house) count(event string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[event]
}

func TestACrowdIsTakenInOneByOne(t *testing.T) {
	h := build(t, func(*Limits) {})
	const crowd = 200
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			if _, err := h.get(""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	until(t, "all handshakes are counted", func() bool { return h.count(EventHandshake) == crowd })
	if h.Peak() == 0 || h.Peak() > crowd {
		t.Errorf("a peak of %d", h.Peak())
	}
}

// Whoever says hello and then nothing does not keep the others from their turn.
func TestHalfHandshakesHoldNobodyUp(t *testing.T) {
	h := build(t, func(*Limits) {})
	for range 20 {
		ours, theirs := net.Pipe()
		go func() { _ = tls.Client(theirs, h.client).HandshakeContext(context.WithoutCancel(t.Context())) }()
		hello := make([]byte, 4096)
		n, err := ours.Read(hello)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = ours.Close(), theirs.Close()
		if _, err := h.dial().Write(hello[:n]); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all have said hello", func() bool { strangers, _ := h.Count(); return strangers == 20 && h.waiting.Load() == 0 })
	if _, err := h.get(""); err != nil {
		t.Error(err)
	}
}

func TestWhoSaysNothingIsSentAwayInTime(t *testing.T) {
	h := build(t, func(l *Limits) { l.Handshake = 50 * time.Millisecond })
	c := h.dial()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v", err)
	}
	until(t, "it is counted", func() bool { return h.count(EventHandshakeFailed) == 1 })
}

func TestSilentConnectionsDoNotShutTheDoor(t *testing.T) {
	h := build(t, func(l *Limits) { l.Strangers, l.PerSource, l.Patience = 10, 10, time.Millisecond })
	for range 300 {
		if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address); err == nil { // else it was reset at once
			defer c.Close()
		}
	}
	until(t, "they have come", func() bool { return h.count(EventStalled)+h.count(EventCrowded) == 290 })
	until(t, "there is room", func() bool { _, err := h.get(""); return err == nil })
	if strangers, _ := h.Count(); strangers > 10 {
		t.Errorf("%d strangers", strangers)
	}
}

func TestACallersNewestConnectionsAreServed(t *testing.T) {
	h := build(t, func(*Limits) {})
	for range 5 {
		if _, err := h.get("me"); err != nil {
			t.Fatal(err)
		}
	}
	if _, known := h.Count(); known != 2 || h.count(EventExcess) != 3 {
		t.Errorf("%d connections, %d gave way", known, h.count(EventExcess))
	}
}

func TestPlainHTTPIsToldSo(t *testing.T) {
	h := build(t, func(*Limits) {})
	c := h.dial()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(c); !strings.Contains(string(answer), "https://") {
		t.Errorf("got %q", answer)
	}
}
