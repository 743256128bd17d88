package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nodehitch/nodehitch/shared/client"
)

var errIdle = errors.New("no data received")

// idleTimer cancels a request that has received nothing for the limit.
type idleTimer struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	limit    time.Duration
	received bool
}

// withIdleTimeout returns a context that ends when nothing was received for the limit.
func withIdleTimeout(ctx context.Context, limit time.Duration) (context.Context, *idleTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &idleTimer{ctx: ctx, cancel: cancel, limit: limit}
	t.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w for %s", errIdle, limit)) })
	return ctx, t
}

// stop stops the timer and cancels the context.
func (t *idleTimer) stop() {
	t.timer.Stop()
	t.cancel(nil)
}

// explain replaces the cancellation by the timeout that caused it. If nothing was
// received at all, the controller counts as unreachable, so that another URL is tried.
func (t *idleTimer) explain(err error) error {
	if err == nil || !errors.Is(context.Cause(t.ctx), errIdle) {
		return err
	}
	if !t.received {
		return &client.Unreachable{Where: "the controller", Err: context.Cause(t.ctx)}
	}
	return context.Cause(t.ctx)
}

// timedBody restarts the timer with each read that returns data.
type timedBody struct {
	io.Reader
	idle *idleTimer
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.idle.received = true
		b.idle.timer.Reset(b.idle.limit)
	}
	return n, err
}
