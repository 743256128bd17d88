package serve

import (
	"sync"
	"time"

	peer "github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/controller/telemetry"
)

// role is what a replica is among those that share a store. It begins as a standby. It
// becomes a follower if its configuration lets it serve, and the leader if etcd elects it.
// A leader stays one until its term is over; then the process ends.
type role int

const (
	standby  role = iota // waits to be elected; its HTTPS address does not listen
	follower             // follows the leader's commits and hands requests to the leader
	leader               // writes, and answers
)

// state is what a replica is at one moment.
type state struct {
	role role
	// elected is the leader's name when etcd was asked last, "" for none, and electedTerm the
	// number of its term, 0 for none.
	elected     string
	electedTerm int64
	// feed is the leader's commits, of a follower.
	feed *etcd.Follower
	// forwarder answers on a follower's unix socket; nil until the follower has its certificate.
	forwarder *peer.Forwarder
	// notServing is why a follower's HTTPS address does not listen, "" if it does.
	notServing string
	// term is the leader's own.
	term *etcd.Term
}

// states holds the present state. Readers get a copy.
type states struct {
	mu  sync.Mutex
	now state
}

func (s *states) get() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *states) change(to func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to(&s.now)
}

// elect notes who the leader is by etcd, and says whether that is another one than before.
func (s *states) elect(p etcd.Position) (changed bool) {
	s.change(func(s *state) { changed, s.elected, s.electedTerm = s.elected != p.Leader, p.Leader, p.Term })
	return changed
}

// follow makes a standby a follower that does not serve yet.
func (s *states) follow(feed *etcd.Follower) {
	s.change(func(s *state) { s.role, s.feed, s.notServing = follower, feed, "it has not read the state yet" })
}

// answer lets a follower answer on its unix socket.
func (s *states) answer(f *peer.Forwarder) { s.change(func(s *state) { s.forwarder = f }) }

// serve says that a follower's HTTPS address listens.
func (s *states) serve() { s.change(func(s *state) { s.notServing = "" }) }

// stop says why a follower's HTTPS address does not listen.
func (s *states) stop(because string) { s.change(func(s *state) { s.notServing = because }) }

// lead makes this replica the leader of the term.
func (s *states) lead(term *etcd.Term) { s.change(func(s *state) { s.role, s.term = leader, term }) }

// status is what this replica says of itself to the leader.
func (s state) status() peer.Status {
	if s.role != follower {
		return peer.Status{Problem: "it does not follow the leader yet"}
	}
	var status peer.Status
	at, why := s.feed.Confirmed()
	if !at.IsZero() {
		seconds := time.Since(at).Seconds()
		status.LagSeconds = &seconds
	}
	if s.notServing != "" {
		status.Problem = "not serving: " + s.notServing
	}
	if why != nil {
		status.Problem = why.Error()
	}
	return status
}

// measured is what the metrics show of this replica.
func (s state) measured() telemetry.Replica {
	m := telemetry.Replica{Term: s.electedTerm}
	switch s.role {
	case leader:
		m.Leader, m.Term = true, s.term.Number()
	case follower:
		if at, _ := s.feed.Confirmed(); !at.IsZero() {
			lag := time.Since(at)
			m.Lag = &lag
		}
	}
	return m
}
