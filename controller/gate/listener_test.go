package gate

import (
	"bufio"
	"context"
	"crypto"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
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
	key     *key
	door    *door
	mu      sync.Mutex
	events  map[string]int
}

// door counts how often the gate has asked for the next connection.
type door struct {
	net.Listener
	asked atomic.Int64
}

func (d *door) Accept() (net.Conn, error) {
	d.asked.Add(1)
	return d.Listener.Accept()
}

// key is the server's; it counts the handshakes that are being computed.
type key struct {
	crypto.Signer
	mu        sync.Mutex
	now, most int
	made      int
	hold      chan struct{} // one signature for each value; nil for as they come
	free      sync.Once
}

func (k *key) Sign(random io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	k.mu.Lock()
	k.now++
	k.made++
	k.most = max(k.most, k.now)
	hold := k.hold
	k.mu.Unlock()
	if hold != nil {
		<-hold
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.now--
	}()
	return k.Signer.Sign(random, digest, o)
}

// holdBack has each signature wait, until letGo or the end of the test.
func (k *key) holdBack(t *testing.T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold = make(chan struct{})
	t.Cleanup(k.letGo)
}

// signed is how many handshakes have been computed.
func (k *key) signed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made - k.now
}

func (k *key) letGo() { k.free.Do(func() { close(k.hold) }) }

func (k *key) count() (now, most int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now, k.most
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
	certificate := borrowed.TLS.Certificates[0]
	h.key = &key{Signer: certificate.PrivateKey.(crypto.Signer)}
	certificate.PrivateKey = h.key
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address, h.door = inner.Addr().String(), &door{Listener: inner}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, ConnContext: Context, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("Who"); who != "" {
			Known(r.Context(), who, 2)
		}
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(h.Listener(h.door, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}))
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

// connect connects and says nothing.
func (h *house) connect() (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", h.address)
	if err == nil {
		h.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// dial is a connection that has to come about.
func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := h.connect()
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// get makes a request on a connection of its own; the answer is what follows the
// header.
func (h *house) get(who string) (string, error) {
	conn, err := h.connect()
	if err != nil {
		return "", err
	}
	return h.ask(conn, who)
}

// comes is somebody who is connected, and asks.
func (h *house) comes(all *sync.WaitGroup) {
	h.t.Helper()
	conn := h.dial()
	all.Go(func() {
		if _, err := h.ask(conn, ""); err != nil {
			h.t.Error(err)
		}
	})
}

func (h *house) ask(conn net.Conn, who string) (string, error) {
	c := tls.Client(conn, h.client)
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

// The others wait while as many handshakes are computed as may be.
func TestSoManyHandshakesAreComputedAtATime(t *testing.T) {
	for _, turns := range []int{1, 3} {
		t.Run(fmt.Sprint(turns), func(t *testing.T) {
			h := build(t, func(l *Limits) { l.Turns, l.Handshake = turns, time.Minute })
			h.key.holdBack(t)
			const crowd = 20
			var all sync.WaitGroup
			for range crowd {
				h.comes(&all)
			}
			until(t, "each is computed or waits", func() bool {
				now, _ := h.key.count()
				return now >= turns && now+int(h.waiting.Load()) == crowd
			})
			h.key.letGo()
			all.Wait()
			until(t, "all handshakes are counted", func() bool { return h.count(EventHandshake) == crowd })
			if _, most := h.key.count(); most != turns {
				t.Errorf("%d handshakes were computed at a time, want %d", most, turns)
			}
		})
	}
}

// A handshake that its client gives up while it waits is not computed.
func TestNothingIsComputedForWhoHasGone(t *testing.T) {
	h := build(t, func(l *Limits) { l.Handshake = time.Minute })
	h.key.holdBack(t)
	var stays sync.WaitGroup
	h.comes(&stays)
	until(t, "one has its turn", func() bool { now, _ := h.key.count(); return now == 1 })
	const others = 20
	for range others {
		ctx, giveUp := context.WithCancel(t.Context())
		conn, waiting := h.dial(), h.waiting.Load()
		gaveUp := make(chan struct{})
		go func() {
			defer close(gaveUp)
			_ = tls.Client(conn, h.client).HandshakeContext(ctx)
		}()
		until(t, "it waits", func() bool { return h.waiting.Load() == waiting+1 })
		giveUp()
		<-gaveUp
	}
	h.key.letGo()
	stays.Wait()
	until(t, "all others have failed", func() bool { return h.count(EventHandshakeFailed) == others })
	if n := h.key.signed(); n != 1 {
		t.Errorf("%d handshakes were computed, want 1", n)
	}
}

// While many wait for their turn, the kernel keeps those who come.
func TestNoMoreAreTakenInWhileManyWait(t *testing.T) {
	h := build(t, func(l *Limits) { l.Handshake = time.Minute })
	h.key.holdBack(t)
	var all sync.WaitGroup
	const first = 1 + crowdedTurns + 1 // one in turn, and one more waits than lets others in
	for i := range first {
		h.comes(&all)
		until(t, "it waits", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) == i+1 })
	}
	const others = 20
	for range others {
		h.comes(&all)
	}
	until(t, "the listener stands in line behind them", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) > first })
	if taken, _ := h.Count(); taken != first || h.Peak() != taken {
		t.Errorf("%d of %d are taken in, at most %d handshakes were under way, want %d", taken, first+others, h.Peak(), first)
	}
	h.key.letGo()
	all.Wait()
	until(t, "all handshakes are counted", func() bool { return h.count(EventHandshake) == first+others })
}

// hello is the first message of a handshake.
func (h *house) hello() []byte {
	h.t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	go func() { _ = tls.Client(theirs, h.client).HandshakeContext(context.WithoutCancel(h.t.Context())) }()
	message := make([]byte, 4096)
	n, err := ours.Read(message)
	if err != nil {
		h.t.Fatal(err)
	}
	return message[:n]
}

// halfway is some connections that say hello, and then nothing.
func (h *house) halfway(connections ...net.Conn) {
	h.t.Helper()
	hello := h.hello()
	for _, c := range connections {
		if _, err := c.Write(hello); err != nil {
			h.t.Fatal(err)
		}
	}
}

// silent is so many connections, when the gate has let them in and waits for the next.
func (h *house) silent(n int) (all []net.Conn) {
	h.t.Helper()
	for range n {
		all = append(all, h.dial())
	}
	until(h.t, "all are let in", func() bool { return int(h.door.asked.Load()) == n+1 })
	return all
}

// Whoever says hello and then nothing does not keep the others from their turn.
func TestHalfHandshakesHoldNobodyUp(t *testing.T) {
	h := build(t, func(*Limits) {})
	h.halfway(h.silent(20)...)
	until(t, "all have had their turn", func() bool { return h.key.signed() == 20 })
	if _, err := h.get(""); err != nil {
		t.Error(err)
	}
}

// Where all strangers wait for their turn, none gives way; who comes waits behind them.
func TestWhoComesWaitsWhileAllOthersDo(t *testing.T) {
	const crowd = 100
	h := build(t, func(l *Limits) { l.Strangers, l.PerSource, l.Handshake = crowd, crowd, time.Minute })
	h.key.holdBack(t)
	h.halfway(h.silent(crowd)...)
	until(t, "each is computed or waits", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) == crowd })
	var honest sync.WaitGroup
	h.comes(&honest)
	until(t, "the listener waits", func() bool { return h.waiting.Load() == crowd })
	h.key.letGo()
	honest.Wait()
	if h.count(EventFull)+h.count(EventCrowded) != 0 || h.count(EventStalled) != 1 {
		t.Errorf("%d and %d are turned away, %d gave way", h.count(EventFull), h.count(EventCrowded), h.count(EventStalled))
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
	h := build(t, func(l *Limits) { l.Strangers, l.PerSource = 10, 10 })
	for range 300 {
		h.dial()
	}
	until(t, "they have come", func() bool { return h.count(EventStalled) == 290 })
	if _, err := h.get(""); err != nil {
		t.Error(err)
	}
	if strangers, _ := h.Count(); strangers > 10 || h.count(EventFull)+h.count(EventCrowded) != 0 {
		t.Errorf("%d strangers, %d and %d were turned away", strangers, h.count(EventFull), h.count(EventCrowded))
	}
}

// The controller owes them a handshake: a flood does not take their places meanwhile.
func TestWhoWaitsForHisTurnKeepsHisPlace(t *testing.T) {
	h := build(t, func(l *Limits) { l.Strangers, l.PerSource, l.Handshake = 10, 10, time.Minute })
	h.key.holdBack(t)
	var honest sync.WaitGroup
	for range 3 {
		h.comes(&honest)
	}
	until(t, "each is computed or waits", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) == 3 })
	for range 300 {
		h.dial()
	}
	until(t, "they have come", func() bool { return h.count(EventStalled) == 293 })
	h.key.letGo()
	honest.Wait()
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
