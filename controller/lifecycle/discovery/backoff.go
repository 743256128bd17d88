package discovery

import (
	"sync"
	"time"
)

// The pause between two attempts for an instance grows from the shortest to the longest
// while they find nothing new.
const (
	shortestPause = 10 * time.Second
	longestPause  = 5 * time.Minute
)

// backoff spaces the attempts out, in memory only.
type backoff struct {
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
	// outdated: the instance may have another stack since the attempt began.
	outdated bool
}

// begin is the attempt in progress; or a new one, which the caller makes (first); or the
// last one, if it is too early for another.
func (b *backoff) begin(instanceID string, now time.Time) (a *attempt, first bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.all[instanceID]
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
	if b.all == nil {
		b.all = make(map[string]*attempt)
	}
	b.all[instanceID] = a
	return a, true, 0
}

// end keeps the outcome of an attempt.
func (b *backoff) end(instanceID string, a *attempt, added *addition, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.err, a.ended = err, now
	a.pause = min(max(shortestPause, 2*a.pause), longestPause)
	if added != nil {
		if a.refused = added.refused; len(added.added) > 0 {
			a.pause = shortestPause
		}
	}
	a.next = now.Add(a.pause)
	if close(a.done); a.outdated {
		delete(b.all, instanceID)
	}
}

func (b *backoff) reset(instanceID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.all[instanceID]
	switch {
	case a == nil:
	case a.ended.IsZero():
		a.outdated = true
	default:
		delete(b.all, instanceID)
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
