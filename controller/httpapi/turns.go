package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// A list of a large fleet is many megabytes, from when it is read until it has been sent, and a
// caller has hundreds of connections. So each caller has a few lists in memory at a time; one that
// is waited for takes none. A single object counts as a list: it is read in the same way.
const listsOfCaller = 8

// turns are the lists in memory, by caller.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn is what one caller has.
type turn struct {
	taken chan struct{}
	users int // that have it or wait for it
}

// take waits, for so long at most, until the caller may have one more list. The turn is over when
// end is called.
func (t *turns) take(ctx context.Context, who string, longest time.Duration) (end func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	mine := t.of[who]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, listsOfCaller)}
		t.of[who] = mine
	}
	mine.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, who)
		}
	}
	late := time.NewTimer(longest)
	defer late.Stop()
	select {
	case mine.taken <- struct{}{}:
		return func() { <-mine.taken; leave() }, nil
	case <-late.C:
		err = &ratelimit.Exceeded{RetryAfter: time.Second, Problem: wire.NewProblem(wire.ProblemTooMany,
			"too many lists of this caller are being sent; read their answers, or ask for pages with limit")}
	case <-ctx.Done():
		err = ctx.Err()
	}
	leave()
	return nil, err
}

// inTurn reads a list in the caller's turn. Unless there is something to send, the turn is over
// at once: the list is waited for.
func (s *Handler) inTurn(ctx context.Context, read func() (done bool, err error)) func() (bool, error) {
	return func() (bool, error) {
		if err := s.beginList(ctx); err != nil {
			return false, err
		}
		done, err := read()
		if !done {
			callOf(ctx).endList()
		}
		return done, err
	}
}

// beginList waits for the caller's turn to have a list in memory. It is over when the request is,
// or at endList.
func (s *Handler) beginList(ctx context.Context) (err error) {
	c := callOf(ctx)
	c.endList()
	c.list, err = s.lists.take(ctx, c.who, s.Times.List)
	return err
}

func (c *call) endList() {
	if c.list != nil {
		c.list()
		c.list = nil
	}
}
