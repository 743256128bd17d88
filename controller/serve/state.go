package serve

import (
	"fmt"
	"slices"
	"sync"
	"time"

	peer "github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/controller/telemetry"
)

// stage is how far a replica has come. It begins as a standby, follows the leader if its
// configuration lets it serve, and leads once etcd has elected it. A leader stays one until its
// term is over; then the process ends.
type stage int

// A replica is a follower from reading to cutOff: it follows the leader's commits. Its HTTPS
// address listens while it is serving.
const (
	standby stage = iota
	reading
	uncertified
	serving
	cutOff
	opening
	leading
)

// String says what a replica does at this stage.
func (s stage) String() string {
	return [...]string{"waiting to be elected", "reading the state", "waiting for a certificate of its own", "serving", "cut off from the leader",
		"opening the store as the leader", "leading"}[s]
}

// nextStages are those that may come after a stage. A replica can be elected at any of them
// before opening.
var nextStages = map[stage][]stage{
	standby:     {reading, opening},
	reading:     {uncertified, opening},
	uncertified: {serving, opening},
	serving:     {cutOff, opening},
	cutOff:      {serving, opening},
	opening:     {leading},
}

// state is what a replica is at one moment.
type state struct {
	stage stage
	// because is why a follower's HTTPS address does not listen, "" if it does.
	because string
	// elected is the leader's name when etcd was asked last, "" for none, and electedTerm the
	// number of its term, 0 for none.
	elected     string
	electedTerm int64
	// feed is the leader's commits, of a follower.
	feed *etcd.Follower
	// forwarder answers on a follower's unix socket; nil until the follower has its certificate.
	forwarder *peer.Forwarder
	// term is the leader's own, from opening on.
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

// enter begins a stage; because is that of state. It refuses a stage that cannot come after the
// present one.
func (s *states) enter(next stage, because string) (err error) {
	s.change(func(now *state) {
		if !slices.Contains(nextStages[now.stage], next) {
			err = fmt.Errorf("this replica is %s, and %s cannot come next", now.stage, next)
			return
		}
		now.stage, now.because = next, because
	})
	return err
}

// elect notes who the leader is by etcd, and says whether that is another one than before.
func (s *states) elect(p etcd.Position) (changed bool) {
	s.change(func(s *state) { changed, s.elected, s.electedTerm = s.elected != p.Leader, p.Leader, p.Term })
	return changed
}

// status is what this replica says of itself to the leader.
func (s state) status() peer.Status {
	switch s.stage {
	case standby, opening, leading:
		return peer.Status{Problem: "it does not follow the leader yet"}
	}
	var status peer.Status
	at, why := s.feed.Confirmed()
	if !at.IsZero() {
		seconds := time.Since(at).Seconds()
		status.LagSeconds = &seconds
	}
	if s.because != "" {
		status.Problem = "not serving: " + s.because
	}
	if why != nil {
		status.Problem = why.Error()
	}
	return status
}

// measured is what the metrics show of this replica. It is the leader as soon as it is elected.
func (s state) measured() telemetry.Replica {
	m := telemetry.Replica{Term: s.electedTerm}
	switch s.stage {
	case opening, leading:
		m.Leader, m.Term = true, s.term.Number()
	case reading, uncertified, serving, cutOff:
		if at, _ := s.feed.Confirmed(); !at.IsZero() {
			lag := time.Since(at)
			m.Lag = &lag
		}
	}
	return m
}
