package enrollment

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The limits of a remote address (an IPv6 /64). Refused tokens are few: a token
// comes from user_data and is never mistyped. Good ones come all at once when a
// whole stack boots behind one router.
const (
	refusedEvery, refusedBurst = 6 * time.Second, 10
	servedEvery, servedBurst   = 50 * time.Millisecond, 200

	// maxRemotes bounds the memory that unauthenticated callers can take.
	maxRemotes = 4096
)

// limiter limits remote addresses.
type limiter struct {
	*ratelimit.Limiter[netip.Prefix]
}

func newLimiter(every time.Duration, burst, size int) limiter {
	return limiter{ratelimit.New[netip.Prefix](every, burst, size)}
}

// take counts one event of the remote at now. Its error is a *ratelimit.Exceeded.
func (l limiter) take(remote netip.Addr, now time.Time) error {
	refusal := l.Take(ratelimit.Network(remote), now)
	if refusal == nil {
		return nil
	}
	return &ratelimit.Exceeded{
		Problem:    api.NewProblem(api.ProblemTooMany, fmt.Sprintf("too many enrollments from this address: try again in %v", refusal.Wait)),
		RetryAfter: refusal.Wait,
	}
}
