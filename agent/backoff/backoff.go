// Package backoff says how long to wait before something is tried again: the one
// place where the agent's retries get their growth, bounds and jitter.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff grows from Min to Max. The zero value is not useful; it is not safe
// for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	// Factor by which each wait is longer than the one before. With factor f a
	// wait is about (f-1)/f of the time waited so far: 1.3 loses at most a quarter.
	Factor float64
	// Spread bounds the first wait, which is random. If Spread is longer than Min, it is
	// also the shortest later wait. It is for many clients that lose the same server at the
	// same time and would overload it together.
	Spread time.Duration

	base time.Duration
}

// Next is the next wait, with jitter; it never exceeds Max.
func (b *Backoff) Next() time.Duration {
	if b.base == 0 {
		b.base = b.Min
		if b.Spread > b.Min {
			b.base = min(b.Max, b.Spread)
			return Within(b.base)
		}
	} else {
		b.base = min(b.Max, time.Duration(float64(b.base)*b.Factor))
	}
	wait := Jitter(b.base)
	if wait > b.Max {
		wait = 2*b.Max - wait // not Max itself, at which they would all meet
	}
	return wait
}

// Reset makes the next wait the first one again.
func (b *Backoff) Reset() { b.base = 0 }

// Jitter is d within ±20 %, so that a thousand agents that were stopped together
// do not come back together.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// Within is anywhere between nothing and d.
func Within(d time.Duration) time.Duration {
	return time.Duration(float64(d) * rand.Float64())
}
