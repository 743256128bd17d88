package gate

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

// line is a connection of which only who and whether matter: whatever it is asked to
// read or to write, it does.
type line struct {
	net.Conn
	from string
	mu   sync.Mutex
	shut bool
}

func (l *line) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", l.from)
	return addr
}

func (l *line) Read(p []byte) (int, error)  { return len(p), nil }
func (l *line) Write(p []byte) (int, error) { return len(p), nil }

func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
	return nil
}

func (l *line) closed() bool {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

// scene is a small gate: 8 connections, 6 strangers, 4 of one network.
type scene struct {
	*Gate
	t      *testing.T
	log    bytes.Buffer
	events map[string]int
}

func play(t *testing.T, f func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, events: map[string]int{}}
		s.Gate = &Gate{
			Limits:  Limits{Connections: 8, Strangers: 6, PerSource: 4, Handshake: 10 * time.Second, Longest: time.Minute},
			Log:     slog.New(slog.NewTextHandler(&s.log, nil)),
			Observe: func(event string) { s.events[event]++ },
		}
		f(s)
	})
}

// come is a connection from an address, nil where it is turned away.
func (s *scene) come(from string) (*conn, *line) {
	s.t.Helper()
	l := &line{from: from + ":1"}
	c := s.admit(l)
	if (c == nil) != l.closed() {
		s.t.Errorf("%s: let in %v, closed %v", from, c != nil, l.closed())
	}
	return c, l
}

// comes is a connection that has to be let in.
func (s *scene) comes(from string) (*conn, *line) {
	s.t.Helper()
	c, l := s.come(from)
	if c == nil {
		s.t.Fatalf("%s is turned away", from)
	}
	return c, l
}

func (s *scene) turnedAway(from, event string) {
	s.t.Helper()
	before := s.events[event]
	if c, _ := s.come(from); c != nil || s.events[event] != before+1 {
		s.t.Errorf("%s is let in: %v; events %v", from, c != nil, s.events)
	}
}

// moves has a connection read or write.
func (s *scene) moves(how func([]byte) (int, error)) {
	s.t.Helper()
	if _, err := how(make([]byte, 1)); err != nil {
		s.t.Error(err)
	}
}

// comesInsteadOf is a connection for which another one gives way, and no other.
func (s *scene) comesInsteadOf(gone *line, from string) (*conn, *line) {
	s.t.Helper()
	before, closed := s.events[EventStalled], gone.closed()
	c, l := s.comes(from)
	if closed || !gone.closed() || s.events[EventStalled] != before+1 {
		s.t.Errorf("%s has come, %s is closed: %v, was before: %v; events %v", from, gone.from, gone.closed(), closed, s.events)
	}
	return c, l
}

func (s *scene) counts(strangers, known int) {
	s.t.Helper()
	if a, b := s.Count(); a != strangers || b != known {
		s.t.Errorf("%d strangers and %d known, want %d and %d", a, b, strangers, known)
	}
}

func requestOf(c *conn) context.Context { return Context(context.Background(), c) }

func TestStrangersOfOneNetworkLeaveRoomForOthers(t *testing.T) {
	play(t, func(s *scene) {
		s.comes("192.0.2.2") // has waited for longer, but is of another network
		_, first := s.comes("192.0.2.1")
		for range 3 {
			s.comes("192.0.2.1")
		}
		s.comesInsteadOf(first, "192.0.2.1")
		s.counts(5, 0)
	})
}

// A network has a place again for each of its strangers that goes or shows who he is.
func TestANetworkHasItsPlacesBack(t *testing.T) {
	play(t, func(s *scene) {
		var all []*conn
		for range 4 {
			c, _ := s.comes("192.0.2.1")
			all = append(all, c)
		}
		_ = all[0].Close()
		Known(requestOf(all[1]), "node", 8)
		s.comes("192.0.2.1")
		s.comes("192.0.2.1")
		if s.events[EventStalled] != 0 {
			t.Errorf("one gave way while the network had places: %v", s.events)
		}
		s.comes("192.0.2.1")
		s.counts(4, 1)
	})
}

// full is a gate that has no more places for strangers: one of each address.
func (s *scene) full() (all []*conn, lines []*line) {
	s.t.Helper()
	for i := range 6 {
		c, l := s.comes(fmt.Sprintf("192.0.2.%d", i))
		all, lines = append(all, c), append(lines, l)
	}
	return all, lines
}

// It gives way whatever its age: in a flood all are young.
func TestWhoHasWaitedForTheLongestTimeGivesWay(t *testing.T) {
	play(t, func(s *scene) {
		all, lines := s.full()
		s.moves(all[0].Read)
		s.moves(all[2].Write)
		s.moves(all[1].Read)
		for i, next := range []int{3, 4, 5, 0, 2, 1} {
			_, l := s.comesInsteadOf(lines[next], fmt.Sprintf("198.51.100.%d", i))
			lines = append(lines, l)
		}
		s.comesInsteadOf(lines[6], "198.51.100.7")
		s.counts(6, 0)
	})
}

func TestAnIPv6NetworkIsOneSource(t *testing.T) {
	play(t, func(s *scene) {
		_, first := s.comes("[2001:db8::1]")
		for i := range 3 {
			s.comes(fmt.Sprintf("[2001:db8::1:%d]", i))
		}
		s.comes("[2001:db8:0:1::1]")
		s.comesInsteadOf(first, "[2001:db8::99]")
	})
}

func TestWhomTheControllerIsAtWorkForKeepsHisPlace(t *testing.T) {
	play(t, func(s *scene) {
		all, lines := s.full()
		time.Sleep(59 * time.Second)
		for _, c := range all {
			Working(requestOf(c))
		}
		s.turnedAway("198.51.100.1", EventFull)
		s.moves(all[4].Write) // the answer goes
		young, _ := s.comesInsteadOf(lines[4], "198.51.100.1")
		Working(requestOf(young))
		s.turnedAway("198.51.100.2", EventFull)
		time.Sleep(time.Second) // a minute is the longest, whatever the controller does
		for _, i := range []int{0, 1, 2, 3, 5} {
			c, _ := s.comesInsteadOf(lines[i], "198.51.100.2")
			Working(requestOf(c))
			if s.crowds[c.source] == s.PerSource {
				break
			}
		}
		s.turnedAway("198.51.100.2", EventCrowded) // though another network's gives way
	})
}

func TestAStrangerGivesWayWhereThereAreTooManyAtAll(t *testing.T) {
	play(t, func(s *scene) {
		for i := range 4 {
			c, _ := s.comes("192.0.2.1")
			Known(requestOf(c), fmt.Sprintf("node %d", i), 2)
		}
		_, first := s.comes("192.0.2.1")
		for range 3 {
			s.comes("192.0.2.1")
		}
		s.comesInsteadOf(first, "192.0.2.2")
		s.counts(4, 4)
	})
}

func TestWhoHasShownWhoHeIsKeepsHisPlace(t *testing.T) {
	play(t, func(s *scene) {
		known, l := s.comes("192.0.2.1")
		Known(requestOf(known), "node a", 2)
		s.counts(0, 1)
		time.Sleep(time.Hour)
		for i := range 20 {
			s.come(fmt.Sprintf("198.51.100.%d", i))
			time.Sleep(100 * time.Millisecond)
		}
		if l.closed() {
			t.Error("a known caller gave way to strangers")
		}
		s.counts(6, 1)
	})
}

func TestACallerHasSoManyConnectionsAndTheNewestCount(t *testing.T) {
	play(t, func(s *scene) {
		var lines []*line
		for range 3 {
			c, l := s.comes("192.0.2.1")
			for range 2 { // each connection counts once
				Known(requestOf(c), "node a", 2)
			}
			lines = append(lines, l)
		}
		if !lines[0].closed() || lines[1].closed() || lines[2].closed() || s.events[EventExcess] != 1 {
			t.Errorf("closed %v %v %v; %v", lines[0].closed(), lines[1].closed(), lines[2].closed(), s.events)
		}
		other, _ := s.comes("192.0.2.1")
		Known(requestOf(other), "node b", 2)
		s.counts(0, 3)
	})
}

func TestThereAreNeverMoreThanThereMayBe(t *testing.T) {
	play(t, func(s *scene) {
		var all []*conn
		for i := range 8 {
			c, _ := s.comes(fmt.Sprintf("192.0.2.%d", i))
			Known(requestOf(c), fmt.Sprintf("node %d", i), 2)
			all = append(all, c)
		}
		for i := range 100 {
			s.turnedAway(fmt.Sprintf("198.51.100.%d", i), EventFull)
		}
		if n := strings.Count(s.log.String(), "turned away"); n != 1 {
			t.Errorf("%d lines of log:\n%s", n, s.log.String())
		}
		for _, c := range all {
			_, _ = c.Close(), c.Close() // twice, as a server may
		}
		s.counts(0, 0)
		if len(s.callers) != 0 {
			t.Errorf("%d callers are remembered", len(s.callers))
		}
		s.comes("198.51.100.1")
	})
}

func TestDescriptorsThatAreKeptBack(t *testing.T) {
	for descriptors, want := range map[int]Limits{
		1024:   {Connections: 768, Strangers: 192, PerSource: 48},
		20000:  {Connections: 17500, Strangers: 2048, PerSource: 512},
		524288: {Connections: 458752, Strangers: 2048, PerSource: 512},
		64:     {Connections: 32, Strangers: 8, PerSource: 2},
	} {
		got := LimitsFor(descriptors)
		if got.Connections != want.Connections || got.Strangers != want.Strangers || got.PerSource != want.PerSource || got.Turns < 1 {
			t.Errorf("%d: %+v", descriptors, got)
		}
	}
}
