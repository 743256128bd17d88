// Package ratelimit decides how often a caller may ask for something: a token bucket for
// each caller, in bounded memory.
package ratelimit

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Exceeded is a Problem 429 and how long to wait (the Retry-After header).
type Exceeded struct {
	Problem    *api.Problem
	RetryAfter time.Duration
}

// Error is the problem's.
func (e *Exceeded) Error() string { return e.Problem.Error() }

// Unwrap is the problem.
func (e *Exceeded) Unwrap() error { return e.Problem }

// Limiter has a bucket for each recent caller. It is safe for concurrent
// use.
type Limiter[K comparable] struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	buckets *simplelru.LRU[K, *bucket]
}

type bucket struct {
	rate *rate.Limiter
	over bool // it has refused since it was full
}

// New makes a Limiter: burst at once, then one in every. It forgets the caller unheard of
// for longest when there are more than size: who floods is never that one.
func New[K comparable](every time.Duration, burst, size int) *Limiter[K] {
	buckets, err := simplelru.NewLRU[K, *bucket](size, nil)
	if err != nil {
		panic("ratelimit: " + err.Error()) // only for sizes below 1
	}
	return &Limiter[K]{limit: rate.Every(every), burst: burst, buckets: buckets}
}

// Refusal is why a caller has to wait.
type Refusal struct {
	// Wait is until the next one is allowed, in whole seconds.
	Wait time.Duration
	// First says that the caller had a full bucket and none was refused since: log it.
	First bool
}

// Take counts one event of the caller at now, and returns nil if it is allowed. What is
// refused is not counted.
func (l *Limiter[K]) Take(caller K, now time.Time) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.buckets.Get(caller)
	if !known {
		b = &bucket{rate: rate.NewLimiter(l.limit, l.burst)}
		l.buckets.Add(caller, b)
	}
	if b.rate.TokensAt(now) >= float64(l.burst) {
		b.over = false
	}
	if b.rate.AllowN(now, 1) {
		return nil
	}
	missing := 1 - b.rate.TokensAt(now)
	first := !b.over
	b.over = true
	return &Refusal{Wait: time.Duration(max(1, math.Ceil(missing/float64(l.limit)))) * time.Second, First: first}
}

// Len is how many callers are remembered.
func (l *Limiter[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buckets.Len()
}
