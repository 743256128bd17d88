// Package notify wakes the waiters of a change: long polls of agents, and of people who
// watch a list. Its state may be lost at any time: a waiter that is woken checks again what
// it waits for, so an extra wake does no harm, and a waiter that subscribes before it checks
// misses no change.
package notify

import (
	"context"
	"sync"
	"time"
)

// The keys of lists. Every other key is the id of what changed.
const (
	Instances  = "instances"
	Operations = "operations"
	Nodes      = "nodes"
	Events     = "events"
	Replicas   = "replicas"
	Volumes    = "volumes"
	Tokens     = "tokens"
)

// Hub knows what each waiter waits for. The zero Hub is ready for use. All methods may be
// called at the same time; none blocks.
type Hub struct {
	mu     sync.Mutex
	topics map[string]*topic
}

// topic is one key with at least one waiter. All its waiters share one channel,
// which is closed to wake them.
type topic struct {
	changed chan struct{}
	waiters int
}

// Changed wakes all waits for one of the keys, and no others. Call it
// after the change can be seen, that is after the commit.
func (h *Hub) Changed(keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		if t, ok := h.topics[key]; ok {
			close(t.changed)
			delete(h.topics, key)
		}
	}
}

// All wakes all waits: nobody knows what has changed, or what was known counts no longer.
func (h *Hub) All() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, t := range h.topics {
		close(t.changed)
		delete(h.topics, key)
	}
}

// Waiting is how many waits are held, for metrics.
func (h *Hub) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, t := range h.topics {
		n += t.waiters
	}
	return n
}

// Watch returns a channel that is closed at the next change of the key, and a
// function that must be called when the wait is over. Watch first,
// check second, wait third: then no change is missed.
func (h *Hub) Watch(key string) (changed <-chan struct{}, stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.topics[key]
	if !ok {
		if h.topics == nil {
			h.topics = make(map[string]*topic)
		}
		t = &topic{changed: make(chan struct{})}
		h.topics[key] = t
	}
	t.waiters++
	var once sync.Once
	return t.changed, func() { once.Do(func() { h.leave(key, t) }) }
}

func (h *Hub) leave(key string, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.waiters--
	if t.waiters == 0 && h.topics[key] == t {
		delete(h.topics, key)
	}
}

type elsewhereKey struct{}

// elsewhere is another controller that waits in the place of this one.
type elsewhere struct {
	longest time.Duration
	wait    func(time.Duration)
}

// Elsewhere is for a request that another controller has handed on, and that can wait there:
// Poll checks once, and calls wait with the time that is left instead of waiting, which is no
// more than longest.
func Elsewhere(ctx context.Context, longest time.Duration, wait func(left time.Duration)) context.Context {
	return context.WithValue(ctx, elsewhereKey{}, elsewhere{longest, wait})
}

// Poll calls check, and again after each change of the key, until check says done or
// fails, or ctx ends. The end of ctx is no error: the caller answers what it saw last.
func (h *Hub) Poll(ctx context.Context, key string, check func() (done bool, err error)) error {
	if e, ok := ctx.Value(elsewhereKey{}).(elsewhere); ok {
		done, err := check()
		if err != nil || done || ctx.Err() != nil {
			return err
		}
		if over, ends := ctx.Deadline(); ends {
			e.longest = min(e.longest, time.Until(over))
		}
		e.wait(e.longest)
		return nil
	}
	for {
		over, err := h.pollOnce(ctx, key, check)
		if over || err != nil {
			return err
		}
	}
}

// pollOnce checks and waits for one change. It leaves nothing behind if the check panics.
func (h *Hub) pollOnce(ctx context.Context, key string, check func() (done bool, err error)) (over bool, err error) {
	changed, stop := h.Watch(key)
	defer stop()
	if done, err := check(); done || err != nil {
		return true, err
	}
	select {
	case <-changed:
		return false, nil
	case <-ctx.Done():
		return true, nil
	}
}
