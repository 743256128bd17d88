package connlimit

import (
	"bufio"
	"context"
	"crypto"
	"crypto/tls"
	"errors"
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
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an HTTPS server behind a Limiter.
type server struct {
	*Limiter
	t       *testing.T
	address string
	client  *tls.Config
	key     *key
	inner   *acceptCounter
	mu      sync.Mutex
	counts  map[string]int // of each result and reason
}

// acceptCounter counts how often it was asked for the next connection.
type acceptCounter struct {
	net.Listener
	asked atomic.Int64
}

func (a *acceptCounter) Accept() (net.Conn, error) {
	a.asked.Add(1)
	return a.Listener.Accept()
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

func serve(t *testing.T, change func(*Limits)) *server {
	t.Helper()
	limits := LimitsFor(1024)
	limits.Turns, limits.Unauthenticated, limits.PerSource = 1, 400, 400
	change(&limits)
	h := &server{t: t, counts: map[string]int{}}
	count := func(label string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.counts[label]++
	}
	h.Limiter = &Limiter{Limits: limits, Log: slog.New(slog.DiscardHandler), OnHandshake: count, OnRejected: count, OnClosed: count}
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
	h.address, h.inner = inner.Addr().String(), &acceptCounter{Listener: inner}
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, ConnContext: Context, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("Who"); who != "" {
			Authenticated(r.Context(), who, 2)
		}
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.Serve(h.Listener(h.inner, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}))
	}()
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
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
func (h *server) connect() (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", h.address)
	if err == nil {
		h.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// dial is a connection that has to come about.
func (h *server) dial() net.Conn {
	h.t.Helper()
	c, err := h.connect()
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// get makes a request on a connection of its own; the answer is what follows the
// header.
func (h *server) get(who string) (string, error) {
	conn, err := h.connect()
	if err != nil {
		return "", err
	}
	return h.ask(conn, who)
}

// asks connects, and makes a request on its own goroutine.
func (h *server) asks(all *sync.WaitGroup) {
	h.t.Helper()
	conn := h.dial()
	all.Go(func() {
		if _, err := h.ask(conn, ""); err != nil {
			h.t.Error(err)
		}
	})
}

func (h *server) ask(conn net.Conn, who string) (string, error) {
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

func (h *server) counted(label string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[label]
}

// The others wait while as many handshakes are computed as may be.
func TestSoManyHandshakesAreComputedAtATime(t *testing.T) {
	for _, turns := range []int{1, 3} {
		t.Run(fmt.Sprint(turns), func(t *testing.T) {
			h := serve(t, func(l *Limits) { l.Turns, l.Handshake = turns, time.Minute })
			h.key.holdBack(t)
			const clients = 20
			var all sync.WaitGroup
			for range clients {
				h.asks(&all)
			}
			until(t, "each is computed or waits", func() bool {
				now, _ := h.key.count()
				return now >= turns && now+int(h.waiting.Load()) == clients
			})
			h.key.letGo()
			all.Wait()
			until(t, "all handshakes are counted", func() bool { return h.counted(ResultSuccess) == clients })
			if _, most := h.key.count(); most != turns {
				t.Errorf("%d handshakes were computed at a time, want %d", most, turns)
			}
		})
	}
}

// A handshake that its client gives up while it waits is not computed.
func TestNoHandshakeIsComputedForAClientThatHasGone(t *testing.T) {
	h := serve(t, func(l *Limits) { l.Handshake = time.Minute })
	h.key.holdBack(t)
	var stays sync.WaitGroup
	h.asks(&stays)
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
	until(t, "all others have failed", func() bool { return h.counted(ResultFailure) == others })
	if n := h.key.signed(); n != 1 {
		t.Errorf("%d handshakes were computed, want 1", n)
	}
}

// While many wait for their turn, new connections wait in the kernel.
func TestNoMoreAreAcceptedWhileManyWait(t *testing.T) {
	h := serve(t, func(l *Limits) { l.Handshake = time.Minute })
	h.key.holdBack(t)
	var all sync.WaitGroup
	const first = 1 + maxWaiting + 1 // one in turn, and one more waits than lets others in
	for i := range first {
		h.asks(&all)
		until(t, "it waits", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) == i+1 })
	}
	const others = 20
	for range others {
		h.asks(&all)
	}
	until(t, "the listener waits behind them", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) > first })
	n, _ := h.Count()
	if inFlight, most := h.Handshakes(); n != first || inFlight != first || most != first {
		t.Errorf("%d of %d are accepted, %d handshakes are in flight, at most %d were, want %d", n, first+others, inFlight, most, first)
	}
	h.key.letGo()
	all.Wait()
	until(t, "all handshakes are counted", func() bool { return h.counted(ResultSuccess) == first+others })
}

// hello is the first message of a handshake.
func (h *server) hello() []byte {
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
func (h *server) halfway(connections ...net.Conn) {
	h.t.Helper()
	hello := h.hello()
	for _, c := range connections {
		if _, err := c.Write(hello); err != nil {
			h.t.Fatal(err)
		}
	}
}

// silent is so many connections, when the listener has accepted them and waits for the next.
func (h *server) silent(n int) (all []net.Conn) {
	h.t.Helper()
	for range n {
		all = append(all, h.dial())
	}
	until(h.t, "all are accepted", func() bool { return int(h.inner.asked.Load()) == n+1 })
	return all
}

// A client that says hello and then nothing does not keep the others from their turn.
func TestHalfHandshakesDelayNoOther(t *testing.T) {
	h := serve(t, func(*Limits) {})
	h.halfway(h.silent(20)...)
	until(t, "all have had their turn", func() bool { return h.key.signed() == 20 })
	if _, err := h.get(""); err != nil {
		t.Error(err)
	}
}

// If all wait for their turn, none is closed for a new one, which waits behind them.
func TestANewConnectionWaitsWhileAllOthersDo(t *testing.T) {
	const clients = 100
	h := serve(t, func(l *Limits) { l.Unauthenticated, l.PerSource, l.Handshake = clients, clients, time.Minute })
	h.key.holdBack(t)
	h.halfway(h.silent(clients)...)
	until(t, "each is computed or waits", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) == clients })
	var honest sync.WaitGroup
	h.asks(&honest)
	until(t, "the listener waits", func() bool { return h.waiting.Load() == clients })
	h.key.letGo()
	honest.Wait()
	if h.counted(ReasonLimit)+h.counted(ReasonSourceLimit) != 0 || h.counted(ReasonIdle) != 1 {
		t.Errorf("%d and %d are rejected, %d are closed", h.counted(ReasonLimit), h.counted(ReasonSourceLimit), h.counted(ReasonIdle))
	}
}

func TestASilentConnectionIsClosedInTime(t *testing.T) {
	h := serve(t, func(l *Limits) { l.Handshake = 50 * time.Millisecond })
	c := h.dial()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v", err)
	}
	until(t, "it is counted", func() bool { return h.counted(ResultFailure) == 1 })
}

func TestSilentConnectionsKeepNoOtherOut(t *testing.T) {
	h := serve(t, func(l *Limits) { l.Unauthenticated, l.PerSource = 10, 10 })
	for range 300 {
		h.dial()
	}
	until(t, "all are accepted", func() bool { return h.counted(ReasonIdle) == 290 })
	if _, err := h.get(""); err != nil {
		t.Error(err)
	}
	if n, _ := h.Count(); n > 10 || h.counted(ReasonLimit)+h.counted(ReasonSourceLimit) != 0 {
		t.Errorf("%d connections, %d and %d were rejected", n, h.counted(ReasonLimit), h.counted(ReasonSourceLimit))
	}
}

// A flood does not take the places of those whose handshake the controller has to compute.
func TestAConnectionThatWaitsForItsTurnKeepsItsPlace(t *testing.T) {
	h := serve(t, func(l *Limits) { l.Unauthenticated, l.PerSource, l.Handshake = 10, 10, time.Minute })
	h.key.holdBack(t)
	var honest sync.WaitGroup
	for range 3 {
		h.asks(&honest)
	}
	until(t, "each is computed or waits", func() bool { now, _ := h.key.count(); return now+int(h.waiting.Load()) == 3 })
	for range 300 {
		h.dial()
	}
	until(t, "all are accepted", func() bool { return h.counted(ReasonIdle) == 293 })
	h.key.letGo()
	honest.Wait()
}

func TestTheNewestConnectionsOfACallerAreServed(t *testing.T) {
	h := serve(t, func(*Limits) {})
	for range 5 {
		if _, err := h.get("me"); err != nil {
			t.Fatal(err)
		}
	}
	if _, n := h.Count(); n != 2 || h.counted(ReasonPerCallerLimit) != 3 {
		t.Errorf("%d connections, %d are closed", n, h.counted(ReasonPerCallerLimit))
	}
}

// lent is an inner listener that Close leaves open, for another listener. A pending Accept ends when
// the test closes mayEnd.
type lent struct {
	net.Listener
	mayEnd  chan struct{}
	pending atomic.Int64
}

func (l *lent) Accept() (net.Conn, error) {
	l.pending.Add(1)
	defer l.pending.Add(-1)
	<-l.mayEnd
	return nil, net.ErrClosed
}

func (l *lent) Close() error { return nil }

// An Accept that is still pending after Close would take a connection from the next listener.
func TestNothingIsAcceptedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &lent{mayEnd: make(chan struct{})}
		l := (&Limiter{Limits: LimitsFor(1024), Log: slog.New(slog.DiscardHandler)}).Listener(inner, nil)
		go func() { _, _ = l.Accept() }()
		synctest.Wait()
		closed := make(chan int64)
		go func() {
			_ = l.Close()
			closed <- inner.pending.Load()
		}()
		synctest.Wait()
		close(inner.mayEnd)
		if pending := <-closed; pending != 0 {
			t.Errorf("closed, and %d wait for a connection", pending)
		}
	})
}

func TestCloseOfAListenerThatWasNeverAsked(t *testing.T) {
	inner := &lent{}
	l := (&Limiter{Limits: LimitsFor(1024), Log: slog.New(slog.DiscardHandler)}).Listener(inner, nil)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestPlainHTTPIsAnsweredWithAHint(t *testing.T) {
	h := serve(t, func(*Limits) {})
	c := h.dial()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(c); !strings.Contains(string(answer), "https://") {
		t.Errorf("got %q", answer)
	}
}
