package discovery

import (
	"sync"
	"time"
)

// The least time between two attempts for an instance, and to what it grows while they
// find nothing new.
const (
	shortestPause = 10 * time.Second
	longestPause  = 5 * time.Minute
)

// pace paces the attempts, in memory only.
type pace struct {
	mu  sync.Mutex
	all map[string]*attempt // by instance
}

// attempt is one observation on behalf of servers that call: in progress until done is
// closed; then its outcome can be read.
type attempt struct {
	done    chan struct{}
	err     error
	refused map[string]string
	// next is when there may be another one, pause how long that was to wait.
	ended, next time.Time
	pause       time.Duration
	// outdated: the stack may have become another one since it began.
	outdated bool
}

// begin is the attempt in progress, or a new one, which is the caller's to make (first);
// or the last one, where it is too early for another.
func (p *pace) begin(instanceID string, now time.Time) (a *attempt, first bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.all[instanceID]
	if before != nil && before.ended.IsZero() {
		return before, false, 0
	}
	a = &attempt{done: make(chan struct{})}
	if before != nil {
		if now.Before(before.next) {
			return before, false, before.next.Sub(now)
		}
		a.pause = before.pause
	}
	if p.all == nil {
		p.all = make(map[string]*attempt)
	}
	p.all[instanceID] = a
	return a, true, 0
}

// end keeps the outcome of an attempt.
func (p *pace) end(instanceID string, a *attempt, added *addition, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.err, a.ended = err, now
	a.pause = min(max(shortestPause, 2*a.pause), longestPause)
	if added != nil {
		if a.refused = added.refused; len(added.added) > 0 {
			a.pause = shortestPause
		}
	}
	a.next = now.Add(a.pause)
	if close(a.done); a.outdated {
		delete(p.all, instanceID)
	}
}

func (p *pace) reset(instanceID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.all[instanceID]
	switch {
	case a == nil:
	case a.ended.IsZero():
		a.outdated = true
	default:
		delete(p.all, instanceID)
	}
}

// age is how long ago the attempt ended.
func (a *attempt) age(now time.Time) time.Duration { return now.Sub(a.ended).Round(time.Second) }

// answer is what the attempt means for a server.
func (a *attempt) answer(serverID string) error {
	if a.err != nil {
		return a.err
	}
	if why, ok := a.refused[serverID]; ok {
		return notAdded("%s", why)
	}
	return nil
}
