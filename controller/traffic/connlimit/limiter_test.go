package connlimit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// client is a connection that reads and writes whatever it is asked to.
type client struct {
	net.Conn
	from string
	mu   sync.Mutex
	shut bool
}

func (c *client) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", c.from)
	return addr
}

func (c *client) Read(p []byte) (int, error)  { return len(p), nil }
func (c *client) Write(p []byte) (int, error) { return len(p), nil }

func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	return nil
}

func (c *client) closed() bool {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shut
}

// fixture is a small Limiter: 8 connections, 6 unauthenticated, 4 of one network.
type fixture struct {
	*Limiter
	t      *testing.T
	log    bytes.Buffer
	counts map[string]int // of each result and reason
}

func run(t *testing.T, f func(s *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{t: t, counts: map[string]int{}}
		count := func(label string) { s.counts[label]++ }
		s.Limiter = &Limiter{
			Limits:     Limits{Connections: 8, Unauthenticated: 6, PerSource: 4, Handshake: 10 * time.Second, Longest: time.Minute},
			Log:        slog.New(slog.NewTextHandler(&s.log, nil)),
			OnRejected: count, OnClosed: count,
		}
		f(s)
	})
}

// connect connects from an address; the connection is nil if it is rejected.
func (s *fixture) connect(from string) (*conn, *client) {
	s.t.Helper()
	peer := &client{from: from + ":1"}
	c := s.accept(peer)
	if (c == nil) != peer.closed() {
		s.t.Errorf("%s: accepted %v, closed %v", from, c != nil, peer.closed())
	}
	return c, peer
}

func (s *fixture) accepted(from string) (*conn, *client) {
	s.t.Helper()
	c, peer := s.connect(from)
	if c == nil {
		s.t.Fatalf("%s is rejected", from)
	}
	return c, peer
}

func (s *fixture) rejected(from, reason string) {
	s.t.Helper()
	before := s.counts[reason]
	if c, _ := s.connect(from); c != nil || s.counts[reason] != before+1 {
		s.t.Errorf("%s is accepted: %v; %v", from, c != nil, s.counts)
	}
}

// replaces is a connection for which this one is closed, and no other.
func (s *fixture) replaces(gone *client, from string) (*conn, *client) {
	s.t.Helper()
	before, closed := s.counts[ReasonIdle], gone.closed()
	c, peer := s.accepted(from)
	if closed || !gone.closed() || s.counts[ReasonIdle] != before+1 {
		s.t.Errorf("%s is accepted, %s is closed: %v, before: %v; %v", from, gone.from, gone.closed(), closed, s.counts)
	}
	return c, peer
}

// full is as many unauthenticated connections as there may be, each of its own address.
func (s *fixture) full() (all []*conn, peers []*client) {
	s.t.Helper()
	for i := range 6 {
		c, peer := s.accepted(fmt.Sprintf("192.0.2.%d", i))
		all, peers = append(all, c), append(peers, peer)
	}
	return all, peers
}

// moves has a connection read or write.
func (s *fixture) moves(how func([]byte) (int, error)) {
	s.t.Helper()
	if _, err := how(make([]byte, 1)); err != nil {
		s.t.Error(err)
	}
}

func (s *fixture) has(unauthenticated, authenticated int) {
	s.t.Helper()
	if a, b := s.Count(); a != unauthenticated || b != authenticated {
		s.t.Errorf("%d unauthenticated and %d authenticated, want %d and %d", a, b, unauthenticated, authenticated)
	}
}

func requestOf(c *conn) context.Context { return Context(context.Background(), c) }

func TestOneNetworkLeavesRoomForOthers(t *testing.T) {
	run(t, func(s *fixture) {
		s.accepted("192.0.2.2") // has waited for longer, but is of another network
		_, first := s.accepted("192.0.2.1")
		for range 3 {
			s.accepted("192.0.2.1")
		}
		s.replaces(first, "192.0.2.1")
		s.has(5, 0)
	})
}

// A network has a place again for each connection that is closed or authenticated.
func TestANetworkHasItsPlacesBack(t *testing.T) {
	run(t, func(s *fixture) {
		var all []*conn
		for range 4 {
			c, _ := s.accepted("192.0.2.1")
			all = append(all, c)
		}
		_ = all[0].Close()
		Authenticated(requestOf(all[1]), "node", 8)
		s.accepted("192.0.2.1")
		s.accepted("192.0.2.1")
		if s.counts[ReasonIdle] != 0 {
			t.Errorf("one was closed while the network had places: %v", s.counts)
		}
		s.accepted("192.0.2.1")
		s.has(4, 1)
	})
}

// It is closed whatever its age: in a flood all are young.
func TestTheOneThatHasWaitedForTheLongestTimeIsClosed(t *testing.T) {
	run(t, func(s *fixture) {
		all, peers := s.full()
		s.moves(all[0].Read)
		s.moves(all[2].Write)
		s.moves(all[1].Read)
		for i, next := range []int{3, 4, 5, 0, 2, 1} {
			_, peer := s.replaces(peers[next], fmt.Sprintf("198.51.100.%d", i))
			peers = append(peers, peer)
		}
		s.replaces(peers[6], "198.51.100.7")
		s.has(6, 0)
	})
}

func TestAnIPv6NetworkIsOneSource(t *testing.T) {
	run(t, func(s *fixture) {
		_, first := s.accepted("[2001:db8::1]")
		for i := range 3 {
			s.accepted(fmt.Sprintf("[2001:db8::1:%d]", i))
		}
		s.accepted("[2001:db8:0:1::1]")
		s.replaces(first, "[2001:db8::99]")
	})
}

func TestAConnectionThatTheControllerIsWorkingOnKeepsItsPlace(t *testing.T) {
	run(t, func(s *fixture) {
		all, peers := s.full()
		time.Sleep(59 * time.Second)
		for _, c := range all {
			Working(requestOf(c))
		}
		s.rejected("198.51.100.1", ReasonLimit)
		s.moves(all[4].Write) // the answer goes
		young, _ := s.replaces(peers[4], "198.51.100.1")
		Working(requestOf(young))
		s.rejected("198.51.100.2", ReasonLimit)
		time.Sleep(time.Second) // a minute is the longest, whatever the controller does
		for i := range 4 {
			c, _ := s.replaces(peers[i], "198.51.100.2")
			Working(requestOf(c))
		}
		s.rejected("198.51.100.2", ReasonSourceLimit) // though one of another network could be closed
	})
}

func TestAtTheLimitOfAllAnUnauthenticatedConnectionIsClosed(t *testing.T) {
	run(t, func(s *fixture) {
		for i := range 4 {
			c, _ := s.accepted("192.0.2.1")
			Authenticated(requestOf(c), fmt.Sprintf("node %d", i), 2)
		}
		_, first := s.accepted("192.0.2.1")
		for range 3 {
			s.accepted("192.0.2.1")
		}
		s.replaces(first, "192.0.2.2")
		s.has(4, 4)
	})
}

func TestAnAuthenticatedConnectionKeepsItsPlace(t *testing.T) {
	run(t, func(s *fixture) {
		c, peer := s.accepted("192.0.2.1")
		Authenticated(requestOf(c), "node a", 2)
		s.has(0, 1)
		time.Sleep(time.Hour)
		for i := range 20 {
			s.accepted(fmt.Sprintf("198.51.100.%d", i))
		}
		if peer.closed() {
			t.Error("it was closed for an unauthenticated one")
		}
		s.has(6, 1)
	})
}

func TestACallerKeepsItsNewestConnections(t *testing.T) {
	run(t, func(s *fixture) {
		var peers []*client
		for range 3 {
			c, peer := s.accepted("192.0.2.1")
			for range 2 { // each connection counts once
				Authenticated(requestOf(c), "node a", 2)
			}
			peers = append(peers, peer)
		}
		if !peers[0].closed() || peers[1].closed() || peers[2].closed() || s.counts[ReasonPerCallerLimit] != 1 {
			t.Errorf("closed %v %v %v; %v", peers[0].closed(), peers[1].closed(), peers[2].closed(), s.counts)
		}
		other, _ := s.accepted("192.0.2.1")
		Authenticated(requestOf(other), "node b", 2)
		s.has(0, 3)
	})
}

func TestThereAreNeverMoreThanThereMayBe(t *testing.T) {
	run(t, func(s *fixture) {
		var all []*conn
		for i := range 8 {
			c, _ := s.accepted(fmt.Sprintf("192.0.2.%d", i))
			Authenticated(requestOf(c), fmt.Sprintf("node %d", i), 2)
			all = append(all, c)
		}
		for i := range 100 {
			s.rejected(fmt.Sprintf("198.51.100.%d", i), ReasonLimit)
		}
		time.Sleep(time.Minute)
		s.rejected("198.51.100.1", ReasonLimit)
		if n := strings.Count(s.log.String(), "rejected"); n != 2 || !strings.Contains(s.log.String(), " suppressed=99 ") {
			t.Errorf("%d lines of log:\n%s", n, s.log.String())
		}
		for _, c := range all {
			_, _ = c.Close(), c.Close() // twice, as a server may
		}
		s.has(0, 0)
		if len(s.callers) != 0 {
			t.Errorf("%d callers are remembered", len(s.callers))
		}
		s.accepted("198.51.100.1")
	})
}

func TestDescriptorsThatAreKeptBack(t *testing.T) {
	for descriptors, want := range map[int]Limits{
		1024:   {Connections: 768, Unauthenticated: 192, PerSource: 48},
		20000:  {Connections: 17500, Unauthenticated: 2048, PerSource: 512},
		524288: {Connections: 458752, Unauthenticated: 2048, PerSource: 512},
		64:     {Connections: 32, Unauthenticated: 8, PerSource: 2},
	} {
		got := LimitsFor(descriptors)
		if got.Connections != want.Connections || got.Unauthenticated != want.Unauthenticated || got.PerSource != want.PerSource || got.Turns < 1 {
			t.Errorf("%d: %+v", descriptors, got)
		}
	}
}
