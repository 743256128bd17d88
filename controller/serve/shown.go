package serve

import (
	"time"

	peer "github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/telemetry"
)

// status is what this replica says to the writer of itself.
func (r *replica) status() peer.Status {
	follower := r.follower.Load()
	if follower == nil {
		return peer.Status{Problem: "it does not follow the writer yet"}
	}
	var s peer.Status
	at, why := follower.Confirmed()
	if !at.IsZero() {
		seconds := time.Since(at).Seconds()
		s.LagSeconds = &seconds
	}
	if because := r.closed.Load(); because != nil {
		s.Problem = "not serving: " + *because
	}
	if why != nil {
		s.Problem = why.Error()
	}
	return s
}

// measured is what the metrics show of this replica.
func (r *replica) measured() (m telemetry.Replica) {
	if member := r.members.joined(); member != nil {
		if live, err := member.Known(); err == nil {
			alive := len(live)
			m.Live = &alive
		}
	}
	if term := r.term.Load(); term != nil {
		m.Writer, m.Term = true, term.Number()
		return m
	}
	m.Term = r.termSeen.Load()
	if follower := r.follower.Load(); follower != nil {
		if at, _ := follower.Confirmed(); !at.IsZero() {
			lag := time.Since(at)
			m.Lag = &lag
		}
	}
	return m
}
