package gate

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// Listener gives an HTTP server the connections of inner that the gate has let
// in, with TLS agreed on; a nil config has no TLS. A stranger who never speaks
// costs the server nothing.
func (g *Gate) Listener(inner net.Listener, config *tls.Config) net.Listener {
	g.once.Do(func() { g.turns = make(chan struct{}, g.Turns) })
	l := &listener{Listener: inner, gate: g, ready: make(chan accepted), closed: make(chan struct{})}
	if config != nil {
		l.config = config.Clone()
		l.config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, hello.Conn.(*conn).takeTurn(hello.Context().Done())
		}
	}
	return l
}

type listener struct {
	net.Listener
	gate   *Gate
	config *tls.Config
	ready  chan accepted
	closed chan struct{}
	begin  sync.Once
	end    sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// Accept returns the next connection that is ready for a request.
func (l *listener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.run() })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close also ends the handshakes that are under way.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.end.Do(func() {
		close(l.closed)
		l.gate.dropUnserved()
	})
	return err
}

func (l *listener) run() {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			// The server knows which errors pass, and waits before it asks again.
			if !l.give(nil, err) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		l.gate.pace()
		if c := l.gate.admit(raw); c != nil {
			go l.greet(c)
		}
	}
}

// give hands a connection to the server; false when the server is gone.
func (l *listener) give(c net.Conn, err error) bool {
	select {
	case l.ready <- accepted{c, err}:
		return true
	case <-l.closed:
		return false
	}
}

// greet makes a connection ready for the server.
func (l *listener) greet(c *conn) {
	var ready net.Conn = c
	if l.config != nil {
		secure := tls.Server(c, l.config)
		if err := l.gate.handshake(c, secure); err != nil {
			explain(err)
			_ = c.Close() // it is of no use
			return
		}
		ready = secure
	}
	l.gate.mu.Lock()
	c.served = true
	l.gate.mu.Unlock()
	if !l.give(ready, nil) {
		_ = c.Close() // nobody serves it
	}
}

// handshake agrees on TLS, within the limit.
func (g *Gate) handshake(c *conn, secure *tls.Conn) error {
	now := g.handshaking.Add(1)
	defer g.handshaking.Add(-1)
	for most := g.peak.Load(); now > most && !g.peak.CompareAndSwap(most, now); most = g.peak.Load() {
	}
	_ = c.SetDeadline(time.Now().Add(g.Handshake)) // fails as the handshake will
	err := secure.Handshake()                      //nolint:noctx // the deadline ends it
	c.endTurn()
	if err != nil {
		g.observe(EventHandshakeFailed)
		return err
	}
	g.observe(EventHandshake)
	return c.SetDeadline(time.Time{})
}

// explain answers a person who left out the s of https, as net/http does.
func explain(err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil {
		return
	}
	switch string(record.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "DELET":
		_, _ = io.WriteString(record.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nthis is HTTPS: use a URL that begins with https://\n")
	}
}

// crowdedTurns is how many hellos may wait for their turn, and half of the places of
// a network, before no more connections are taken: the kernel keeps those, and their
// callers wait.
const crowdedTurns = 64

// pace lets those who were let in say hello before the next one is, and stands in
// line with them where the line is long: else it would find nobody who gives way to
// the next one.
func (g *Gate) pace() {
	runtime.Gosched()
	if g.waiting.Load() > int64(min(crowdedTurns, g.PerSource/2)) {
		g.waiting.Add(1)
		g.turns <- struct{}{}
		g.waiting.Add(-1)
		<-g.turns
	}
}

// dropUnserved closes the connections that the server does not know.
func (g *Gate) dropUnserved() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.served {
			_ = c.Conn.Close() // its handshake fails and forgets it
		}
	}
}
