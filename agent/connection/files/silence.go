package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nodehitch/nodehitch/shared/client"
)

// errSilent is why a transfer was given up on.
var errSilent = errors.New("nothing came any more")

// quiet ends a request in which nothing has come for a while.
type quiet struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	spoke  bool
}

// notSilent is ctx that ends once nothing was heard for the limit.
func notSilent(ctx context.Context, limit time.Duration) (context.Context, *quiet) {
	ctx, cancel := context.WithCancelCause(ctx)
	q := &quiet{ctx: ctx, cancel: cancel, limit: limit}
	q.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w for %s", errSilent, limit)) })
	return ctx, q
}

// stop ends the watch, and the context with it.
func (q *quiet) stop() {
	q.timer.Stop()
	q.cancel(nil)
}

// explain puts the silence in the place of the cancellation that it caused. A
// controller that has not said a word is as good as none: another may answer.
func (q *quiet) explain(err error) error {
	if err == nil || !errors.Is(context.Cause(q.ctx), errSilent) {
		return err
	}
	if !q.spoke {
		return &client.Unreachable{Where: "the controller", Err: context.Cause(q.ctx)}
	}
	return context.Cause(q.ctx)
}

// heard is a body whose every byte is a sign of life.
type heard struct {
	io.Reader
	quiet *quiet
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.quiet.spoke = true
		h.quiet.timer.Reset(h.quiet.limit)
	}
	return n, err
}
