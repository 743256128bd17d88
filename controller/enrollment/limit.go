package enrollment

import (
	"container/list"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The limits of a remote address (an IPv6 /64). Refused tokens are few: a token
// comes from user_data and is never mistyped. Good ones come all at once when a
// whole stack boots behind one router.
const (
	refusedEvery, refusedBurst = 6 * time.Second, 10
	servedEvery, servedBurst   = 50 * time.Millisecond, 200

	// maxRemotes bounds the memory that unauthenticated callers can take: the
	// addresses unheard of for longest are forgotten.
	maxRemotes = 4096
)

// LimitError is a Problem 429 and how long to wait (the Retry-After header).
type LimitError struct {
	Problem    *api.Problem
	RetryAfter time.Duration
}

// Error is the problem's.
func (e *LimitError) Error() string { return e.Problem.Error() }

// Unwrap is the problem.
func (e *LimitError) Unwrap() error { return e.Problem }

// limiter holds a token bucket for each of the remotes heard of last.
type limiter struct {
	limit rate.Limit
	burst int
	size  int

	mu      sync.Mutex
	recent  *list.List // of *bucket, the latest first
	buckets map[netip.Prefix]*list.Element
}

type bucket struct {
	remote netip.Prefix
	rate   *rate.Limiter
}

func newLimiter(every time.Duration, burst, size int) *limiter {
	return &limiter{
		limit: rate.Every(every), burst: burst, size: size,
		recent: list.New(), buckets: map[netip.Prefix]*list.Element{},
	}
}

// take counts one event of the remote at now. Its error is a *LimitError.
func (l *limiter) take(remote netip.Addr, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(network(remote))
	if b.rate.AllowN(now, 1) {
		return nil
	}
	missing := 1 - b.rate.TokensAt(now)
	wait := max(time.Second, time.Duration(missing/float64(l.limit)*float64(time.Second)).Round(time.Second))
	return &LimitError{
		Problem:    api.NewProblem(api.ProblemTooMany, fmt.Sprintf("too many enrollments from this address: try again in %v", wait)),
		RetryAfter: wait,
	}
}

func (l *limiter) bucket(remote netip.Prefix) *bucket {
	if e, ok := l.buckets[remote]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if l.recent.Len() >= l.size {
		oldest := l.recent.Back()
		delete(l.buckets, oldest.Value.(*bucket).remote)
		l.recent.Remove(oldest)
	}
	b := &bucket{remote: remote, rate: rate.NewLimiter(l.limit, l.burst)}
	l.buckets[remote] = l.recent.PushFront(b)
	return b
}

// network is what one customer of a provider can take addresses from.
func network(remote netip.Addr) netip.Prefix {
	remote = remote.Unmap().WithZone("")
	bits := remote.BitLen()
	if remote.Is6() {
		bits = 64
	}
	prefix, _ := remote.Prefix(bits) // the zero Addr: the zero Prefix
	return prefix
}
