package lcm

import (
	"sync"
	"time"
)

// The least time between two looks on behalf of servers, and to what it grows while
// they find nothing new.
const (
	knockPause        = 10 * time.Second
	longestKnockPause = 5 * time.Minute
)

// knocks paces the looks on behalf of servers, in memory only.
type knocks struct {
	mu  sync.Mutex
	all map[string]*knock // by instance
}

// knock is one look: at work until done is closed, what came of it afterwards.
type knock struct {
	done    chan struct{}
	err     error
	refused map[string]string
	// next is when there may be another one, pause how long that was to wait.
	ended, next time.Time
	pause       time.Duration
	// outdated: the stack may have become another one since it began.
	outdated bool
}

// begin is the look at work, or a new one, which is the caller's to make (first); or
// the one that was, where it is too early for another.
func (k *knocks) begin(instanceID string, now time.Time) (l *knock, first bool, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.all[instanceID]
	if before != nil && before.ended.IsZero() {
		return before, false, 0
	}
	l = &knock{done: make(chan struct{})}
	if before != nil {
		if now.Before(before.next) {
			return before, false, before.next.Sub(now)
		}
		l.pause = before.pause
	}
	if k.all == nil {
		k.all = make(map[string]*knock)
	}
	k.all[instanceID] = l
	return l, true, 0
}

// end says what came of a look.
func (k *knocks) end(instanceID string, l *knock, a *admission, err error, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.err, l.ended = err, now
	l.pause = min(max(knockPause, 2*l.pause), longestKnockPause)
	if a != nil {
		if l.refused = a.refused; len(a.added) > 0 {
			l.pause = knockPause
		}
	}
	l.next = now.Add(l.pause)
	if close(l.done); l.outdated {
		delete(k.all, instanceID)
	}
}

// reset lets the next server that calls have a look at once: the stack may be another.
func (k *knocks) reset(instanceID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.all[instanceID]
	switch {
	case l == nil:
	case l.ended.IsZero():
		l.outdated = true
	default:
		delete(k.all, instanceID)
	}
}

// age is how long ago the look ended.
func (l *knock) age(now time.Time) time.Duration { return now.Sub(l.ended).Round(time.Second) }
