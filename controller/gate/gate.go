// Package gate decides which connections the controller has: how many at all, how
// many of strangers, who have not shown yet who they are, and how many of one
// caller. Whoever has been let in keeps his place; among strangers, the one who has
// kept the controller waiting for the longest time gives way to the one who comes. It agrees on TLS with them
// before a request is read, a few at a time, so that a fleet that comes back at
// once is taken in at the speed of the machine.
package gate

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

// What Observe is told.
const (
	EventHandshake       = "handshake"
	EventHandshakeFailed = "handshake-failed"
	// EventFull and EventCrowded: a connection was turned away because there are
	// too many, or too many strangers from its network, and none gives way.
	EventFull    = "turned-away-full"
	EventCrowded = "turned-away-crowded"
	// EventStalled: the stranger who kept the controller waiting for the longest time
	// gave way.
	EventStalled = "stalled"
	// EventExcess: the oldest connection of a caller gave way to his newest.
	EventExcess = "excess"
)

// Gate counts connections. Fill the fields before the first call. It is safe for
// concurrent use.
type Gate struct {
	Limits
	// Log, slog.Default() when nil.
	Log *slog.Logger
	// Observe counts what happened, for metrics; nil tells nobody.
	Observe func(event string)

	mu        sync.Mutex
	open      int
	strangers list.List            // of *conn; the one that moved last is the last
	crowds    map[netip.Prefix]int // strangers of each network
	callers   map[string]*list.List
	turnedOff int       // since it was logged last
	logged    time.Time // when that was

	turns       chan struct{}
	once        sync.Once
	waiting     atomic.Int64 // for their turn; the listener, too, where it stands in line
	handshaking atomic.Int64
	peak        atomic.Int64
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	gate   *Gate
	source netip.Prefix
	since  time.Time
	closed sync.Once

	// Of the goroutine of its handshake: it has its turn.
	turn bool

	// Guarded by gate.mu.
	in     *list.List // strangers or those of caller; nil when it is gone
	caller string
	place  *list.Element
	ours   bool // the controller is at work on it, so that nothing can move
	served bool // handed to the HTTP server
}

// Count is how many connections there are of strangers and of callers who have
// shown who they are.
func (g *Gate) Count() (strangers, known int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.strangers.Len(), g.open - g.strangers.Len()
}

// Peak is the most handshakes that were under way at one time since the start.
func (g *Gate) Peak() int { return int(g.peak.Load()) }

// admit counts a new connection as a stranger's. It returns nil where it turned
// the connection away and closed it.
func (g *Gate) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, gate: g, source: network(raw.RemoteAddr()), since: time.Now()}
	if event := g.enter(c); event != "" {
		g.observe(event)
		abort(raw)
		return nil
	}
	return c
}

// enter finds a place for a stranger; it returns the event for which there is none.
func (g *Gate) enter(c *conn) (refused string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.crowds[c.source] >= g.PerSource && !g.giveWay(c.since, c.source):
		refused = EventCrowded
	case (g.open >= g.Connections || g.strangers.Len() >= g.Strangers) && !g.giveWay(c.since, netip.Prefix{}):
		refused = EventFull
	}
	if refused != "" {
		g.complain(c, refused)
		return refused
	}
	g.open++
	c.in = &g.strangers
	c.place = g.strangers.PushBack(c)
	if g.crowds == nil {
		g.crowds = make(map[netip.Prefix]int)
	}
	g.crowds[c.source]++
	return ""
}

// giveWay closes the stranger, of this network if one is given, who has kept the
// controller waiting for the longest time; false where it is at work on all.
func (g *Gate) giveWay(now time.Time, source netip.Prefix) bool {
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		if source.IsValid() && c.source != source {
			continue
		}
		if !c.ours || now.Sub(c.since) >= g.Longest {
			g.leave(c)
			g.observe(EventStalled)
			go abort(c.Conn)
			return true
		}
	}
	return false
}

// moved notes that a connection has moved, and whether it is the controller that has
// to move next: every other stranger has kept it waiting for longer.
func (g *Gate) moved(c *conn, ours bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.ours = ours
	if c.in == &g.strangers {
		g.strangers.MoveToBack(c.place)
	}
}

// leave forgets a connection; g.mu is held.
func (g *Gate) leave(c *conn) {
	if c.in == nil {
		return
	}
	g.take(c)
	g.open--
}

// take takes a connection out of its list; g.mu is held.
func (g *Gate) take(c *conn) {
	c.in.Remove(c.place)
	switch {
	case c.in == &g.strangers:
		if g.crowds[c.source]--; g.crowds[c.source] == 0 {
			delete(g.crowds, c.source)
		}
	case c.in.Len() == 0:
		delete(g.callers, c.caller)
	}
	c.in, c.place = nil, nil
}

// complain logs, at most once a minute, that connections are turned away.
func (g *Gate) complain(c *conn, event string) {
	g.turnedOff++
	if c.since.Sub(g.logged) < time.Minute {
		return
	}
	log := g.Log
	if log == nil {
		log = slog.Default()
	}
	log.Warn("connections are turned away", "why", event, "source", c.source, "since the last such line", g.turnedOff,
		"open", g.open, "strangers", g.strangers.Len())
	g.turnedOff, g.logged = 0, c.since
}

func (g *Gate) observe(event string) {
	if g.Observe != nil {
		g.Observe(event)
	}
}

type connKey struct{}

// Context notes the connection in the context of its requests, for Known. It is a
// ConnContext of http.Server.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if counted, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, counted)
	}
	return ctx
}

// Working says that a request has arrived as a whole: until something of the answer
// goes, it is not the stranger who keeps the controller waiting.
func Working(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.gate.moved(c, true)
	}
}

// Known says that the caller of a request has shown who he is: his connection is
// no stranger's any more. A caller may have so many connections at most; the oldest
// gives way to a newer one, for it is the one that he may have lost. A connection
// that came through no gate is not counted.
func Known(ctx context.Context, caller string, most int) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return
	}
	if excess := c.gate.know(c, caller, most); excess != nil {
		c.gate.observe(EventExcess)
		abort(excess)
	}
}

func (g *Gate) know(c *conn, caller string, most int) (excess net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.in == nil {
		return nil
	}
	if c.caller == caller {
		return nil
	}
	g.take(c)
	if g.callers == nil {
		g.callers = make(map[string]*list.List)
	}
	all, ok := g.callers[caller]
	if !ok {
		all = list.New()
		g.callers[caller] = all
	}
	c.in, c.place, c.caller = all, all.PushBack(c), caller
	if all.Len() > most {
		oldest := all.Front().Value.(*conn)
		g.leave(oldest)
		excess = oldest.Conn
	}
	return excess
}
