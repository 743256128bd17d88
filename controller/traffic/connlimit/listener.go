package connlimit

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// Listener gives an HTTP server the connections of inner that the Limiter accepts,
// after their TLS handshake; a nil config has no TLS. A client that never sends
// anything costs the server nothing.
func (l *Limiter) Listener(inner net.Listener, config *tls.Config) net.Listener {
	l.once.Do(func() { l.turns = make(chan struct{}, l.Turns) })
	s := &listener{Listener: inner, limiter: l, ready: make(chan accepted), closed: make(chan struct{}), ended: make(chan struct{})}
	if config != nil {
		s.config = config.Clone()
		s.config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, hello.Conn.(*conn).takeTurn(hello.Context().Done())
		}
	}
	return s
}

type listener struct {
	net.Listener
	limiter *Limiter
	config  *tls.Config
	ready   chan accepted
	closed  chan struct{}
	// ended is closed once run has returned, or can never begin.
	ended chan struct{}
	begin sync.Once
	end   sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// Accept returns the next connection that is ready for a request.
func (s *listener) Accept() (net.Conn, error) {
	s.begin.Do(func() { go s.run() })
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close also ends the handshakes in flight. When it returns, the listener accepts nothing from inner
// any more, so inner may be given to another listener if its own Close leaves it open.
func (s *listener) Close() error {
	err := s.Listener.Close()
	s.end.Do(func() {
		close(s.closed)
		s.limiter.closeUnserved()
	})
	s.begin.Do(func() { close(s.ended) }) // Accept was never called
	<-s.ended
	return err
}

func (s *listener) run() {
	defer close(s.ended)
	for {
		raw, err := s.Listener.Accept()
		if err != nil {
			// The server knows which errors are temporary, and waits before it asks again.
			if !s.give(nil, err) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		s.limiter.waitForTurn()
		if c := s.limiter.accept(raw); c != nil {
			go s.handshakeAndServe(c)
		}
	}
}

// give hands a connection to the server; false when the server is gone.
func (s *listener) give(c net.Conn, err error) bool {
	select {
	case s.ready <- accepted{c, err}:
		return true
	case <-s.closed:
		return false
	}
}

// handshakeAndServe makes a connection ready and gives it to the server.
func (s *listener) handshakeAndServe(c *conn) {
	var ready net.Conn = c
	if s.config != nil {
		secure := tls.Server(c, s.config)
		if err := s.limiter.handshake(c, secure); err != nil {
			explain(err)
			_ = c.Close() // it is of no use
			return
		}
		ready = secure
	}
	s.limiter.mu.Lock()
	c.served = true
	s.limiter.mu.Unlock()
	if !s.give(ready, nil) {
		_ = c.Close() // the server is gone
	}
}

// handshake agrees on TLS, within the time limit.
func (l *Limiter) handshake(c *conn, secure *tls.Conn) error {
	now := l.handshaking.Add(1)
	defer l.handshaking.Add(-1)
	for most := l.most.Load(); now > most && !l.most.CompareAndSwap(most, now); most = l.most.Load() {
	}
	_ = c.SetDeadline(time.Now().Add(l.Handshake)) // fails as the handshake will
	err := secure.Handshake()                      //nolint:noctx // the deadline ends it
	c.endTurn()
	if err != nil {
		count(l.OnHandshake, ResultFailure)
		return err
	}
	count(l.OnHandshake, ResultSuccess)
	return c.SetDeadline(time.Time{})
}

// explain answers a client that left out the s of https, as net/http does.
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

// maxWaiting is how many handshakes may wait for their turn, and half of the places of
// a network, before no more connections are accepted: they wait in the kernel.
const maxWaiting = 64

// waitForTurn lets the accepted connections send their hello before the next one is
// accepted. If many handshakes wait, it waits behind them: a place is then free, or
// has a connection that can be closed for the next one.
func (l *Limiter) waitForTurn() {
	runtime.Gosched()
	if l.waiting.Load() > int64(min(maxWaiting, l.PerSource/2)) {
		l.waiting.Add(1)
		l.turns <- struct{}{}
		l.waiting.Add(-1)
		<-l.turns
	}
}

// closeUnserved closes the connections that the server does not know.
func (l *Limiter) closeUnserved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.unauthenticated.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.served {
			_ = c.Conn.Close() // its handshake fails and removes it
		}
	}
}
