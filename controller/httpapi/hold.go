package httpapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// maxWait is the longest that a caller may ask to be held.
const maxWait = 60 * time.Second

// waitOf reads the parameter wait.
func waitOf(text *string) (time.Duration, error) {
	if text == nil {
		return 0, nil
	}
	d, ok := durationOf(*text)
	if !ok || d > maxWait {
		return 0, wire.NewProblem(wire.ProblemInvalid, fmt.Sprintf(
			"query parameter wait: is %.40q; expected from 0 to %d seconds, such as 30, or a duration, such as 30s", *text, maxWait/time.Second))
	}
	return d, nil
}

// durationOf reads a duration that has no unit, if it is in whole seconds, or one of Go's.
func durationOf(text string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// holdOf is how long to hold a poll: for the poll interval, give or take a tenth, or for
// the time that the agent asks for, if that is less.
func (s *Handler) holdOf(asked *string) (time.Duration, error) {
	hold := jittered(time.Duration(s.PollSeconds) * time.Second)
	if asked == nil {
		return hold, nil
	}
	d, ok := durationOf(*asked)
	if !ok {
		return 0, wire.NewProblem(wire.ProblemInvalid, fmt.Sprintf("query parameter wait: is %.40q; expected seconds, such as 20, or a duration, such as 20s", *asked))
	}
	return min(hold, d), nil
}

// jittered is d give or take a tenth, so that agents that started together do not
// continue to call together.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// hold calls check, and again after each change of key, until it says done or
// fails, the time is over, the client is gone, or the controller shuts down. At the end it
// calls check once more: the process may have been frozen, and another one be the leader.
func (s *Handler) hold(ctx context.Context, key string, longest time.Duration, check func() (done bool, err error)) error {
	if longest <= 0 {
		_, err := check()
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	waiting, release := s.held(waiting)
	defer release()
	err := s.Changes.Poll(waiting, key, check)
	if err == nil && waiting.Err() != nil && ctx.Err() == nil {
		_, err = check()
	}
	return err
}

// held counts a request that is held, until release, and ends its context when the controller shuts
// down.
func (s *Handler) held(ctx context.Context) (until context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.draining, cancel)
	s.Metrics.PollHeld(+1)
	return ctx, func() {
		s.Metrics.PollHeld(-1)
		stop()
		cancel()
	}
}
