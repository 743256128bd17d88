// Package connlimit decides which connections the controller keeps: how many at all,
// how many unauthenticated ones, and how many of one caller. An authenticated
// connection keeps its place. A new connection replaces the unauthenticated one that has
// kept the controller waiting for the longest time. The package also
// computes TLS handshakes before a request is read, a few at a time, so that a fleet
// that reconnects at once is accepted at the speed of the machine.
package connlimit

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Results of TLS handshakes.
const (
	ResultSuccess = "success"
	ResultFailure = "failure"
)

// Reasons for which a new connection is rejected: there are too many, or too many
// unauthenticated ones of its network, and the controller is working on each that
// could be closed for it.
const (
	ReasonLimit       = "limit"
	ReasonSourceLimit = "source_limit"
)

// Reasons for which a connection is closed for a new one: it is the one that
// moved longest ago, or it is the oldest of a caller with too many.
const (
	ReasonIdle           = "idle"
	ReasonPerCallerLimit = "per_caller_limit"
)

// Limiter counts connections. Fill the fields before the first call. It is safe for
// concurrent use.
type Limiter struct {
	Limits
	// Log, slog.Default() when nil.
	Log *slog.Logger
	// OnHandshake is called with the result of each handshake, OnRejected and OnClosed
	// with the reason; nil if nothing counts them.
	OnHandshake, OnRejected, OnClosed func(string)

	mu              sync.Mutex
	open            int
	unauthenticated list.List            // of *conn; the one that moved last is the last
	sources         map[netip.Prefix]int // unauthenticated connections of each network
	callers         map[string]*list.List
	suppressed      int       // rejections that are not logged, since logged
	logged          time.Time // when a rejection was logged last

	turns       chan struct{}
	once        sync.Once
	waiting     atomic.Int64 // for their turn; includes the listener while it waits
	handshaking atomic.Int64
	most        atomic.Int64 // handshakes at a time
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	limiter *Limiter
	source  netip.Prefix
	since   time.Time
	closed  sync.Once

	// Of the goroutine of its handshake: it has its turn.
	turn bool

	// Guarded by limiter.mu.
	in      *list.List // unauthenticated or those of caller; nil when it is gone
	caller  string
	place   *list.Element
	working bool // the controller has to move next, not the client
	served  bool // handed to the HTTP server
}

// Count is how many connections there are.
func (l *Limiter) Count() (unauthenticated, authenticated int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unauthenticated.Len(), l.open - l.unauthenticated.Len()
}

// Handshakes is how many are in flight, and the most that were since the start.
func (l *Limiter) Handshakes() (inFlight, most int) {
	return int(l.handshaking.Load()), int(l.most.Load())
}

// accept counts a new connection as unauthenticated. It returns nil if it rejected and
// closed the connection.
func (l *Limiter) accept(raw net.Conn) *conn {
	c := &conn{Conn: raw, limiter: l, source: network(raw.RemoteAddr()), since: time.Now()}
	if reason := l.add(c); reason != "" {
		count(l.OnRejected, reason)
		abort(raw)
		return nil
	}
	return c
}

// add finds a place for a connection; it returns the reason for which there is none.
func (l *Limiter) add(c *conn) (rejected string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.sources[c.source] >= l.PerSource && !l.evict(c.since, c.source):
		rejected = ReasonSourceLimit
	case (l.open >= l.Connections || l.unauthenticated.Len() >= l.Unauthenticated) && !l.evict(c.since, netip.Prefix{}):
		rejected = ReasonLimit
	}
	if rejected != "" {
		l.logRejection(c, rejected)
		return rejected
	}
	l.open++
	c.in = &l.unauthenticated
	c.place = l.unauthenticated.PushBack(c)
	if l.sources == nil {
		l.sources = make(map[netip.Prefix]int)
	}
	l.sources[c.source]++
	return ""
}

// evict closes the unauthenticated connection, of this network if one is given, that moved
// longest ago. It leaves a connection that the controller is working on, unless that moved at
// least Longest ago. It returns false if it closes none.
func (l *Limiter) evict(now time.Time, source netip.Prefix) bool {
	for e := l.unauthenticated.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		if source.IsValid() && c.source != source {
			continue
		}
		if !c.working || now.Sub(c.since) >= l.Longest {
			l.remove(c)
			count(l.OnClosed, ReasonIdle)
			go abort(c.Conn)
			return true
		}
	}
	return false
}

// moved notes that a connection has moved, and whether the controller has to move
// next: every other unauthenticated one has kept it waiting for longer.
func (l *Limiter) moved(c *conn, working bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.working = working
	if c.in == &l.unauthenticated {
		l.unauthenticated.MoveToBack(c.place)
	}
}

// remove forgets a connection; the caller has locked l.mu.
func (l *Limiter) remove(c *conn) {
	if c.in == nil {
		return
	}
	l.unlink(c)
	l.open--
}

// unlink takes a connection out of its list; the caller has locked l.mu.
func (l *Limiter) unlink(c *conn) {
	c.in.Remove(c.place)
	switch {
	case c.in == &l.unauthenticated:
		if l.sources[c.source]--; l.sources[c.source] == 0 {
			delete(l.sources, c.source)
		}
	case c.in.Len() == 0:
		delete(l.callers, c.caller)
	}
	c.in, c.place = nil, nil
}

// logRejection logs one rejection a minute, and how many it did not log.
func (l *Limiter) logRejection(c *conn, reason string) {
	if c.since.Sub(l.logged) < time.Minute {
		l.suppressed++
		return
	}
	log := l.Log
	if log == nil {
		log = slog.Default()
	}
	log.Warn("a connection is rejected", "reason", reason, "source", c.source, "suppressed", l.suppressed,
		"open", l.open, "unauthenticated", l.unauthenticated.Len())
	l.suppressed, l.logged = 0, c.since
}

func count(counter func(string), label string) {
	if counter != nil {
		counter(label)
	}
}

type connKey struct{}

// Context notes the connection in the context of its requests, for Authenticated. It
// is a ConnContext of http.Server.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if counted, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, counted)
	}
	return ctx
}

// Elsewhere notes that the caller is connected to another controller, which has to be told what
// Authenticated is.
func Elsewhere(ctx context.Context, authenticated func(caller string, most int)) context.Context {
	return context.WithValue(ctx, connKey{}, authenticated)
}

// Working says that a request has arrived as a whole: until something of the answer
// goes, the client does not keep the controller waiting.
func Working(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.limiter.moved(c, true)
	}
}

// Authenticated says who the caller of a request is. A caller may have so many
// connections; the oldest is closed for one more, because the caller may have lost it.
// A connection that no Limiter has accepted is not counted; one to another controller is there.
func Authenticated(ctx context.Context, caller string, most int) {
	if elsewhere, ok := ctx.Value(connKey{}).(func(string, int)); ok {
		elsewhere(caller, most)
	}
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return
	}
	if oldest := c.limiter.authenticated(c, caller, most); oldest != nil {
		count(c.limiter.OnClosed, ReasonPerCallerLimit)
		abort(oldest)
	}
}

// authenticated returns the connection that has to be closed, if one has.
func (l *Limiter) authenticated(c *conn, caller string, most int) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in == nil || c.caller == caller {
		return nil
	}
	l.unlink(c)
	if l.callers == nil {
		l.callers = make(map[string]*list.List)
	}
	all, ok := l.callers[caller]
	if !ok {
		all = list.New()
		l.callers[caller] = all
	}
	c.in, c.place, c.caller = all, all.PushBack(c), caller
	if all.Len() <= most {
		return nil
	}
	oldest := all.Front().Value.(*conn)
	l.remove(oldest)
	return oldest.Conn
}
