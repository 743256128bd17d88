// Package follow watches the state of the controller: long polls that continue through
// restarts of the controller and broken connections, and end where continuing is
// of no use.
package follow

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/failover"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// Hold is how long a poll asks the controller to wait for a change.
const Hold = "30s"

const (
	// answerWithin is Hold and what else an answer may take.
	answerWithin = 45 * time.Second
	// pause is the least time between two polls, for a controller that does not hold.
	pause     = 500 * time.Millisecond
	longPause = 5 * time.Second
)

// Poll asks once: with the version that is known, and for how long to hold.
// version is "" at first, and to be ignored if the endpoint has none.
type Poll func(ctx context.Context, version, hold string) (*http.Response, error)

// Update is one change: a new content, or an error that does not end it.
type Update[T any] struct {
	Content *T
	Err     error
}

// Changes polls until ctx ends, and tells of the content at the start, whenever
// it has changed, and of each error that may pass (no answer, one that was cut off, 5xx
// or 429). It returns the error that does not pass, such as 401, or an answer that is no JSON.
func Changes[T any](ctx context.Context, poll Poll, tell func(Update[T])) error {
	version, last := "", ""
	wait := time.Duration(0)
	for {
		if err := sleep.For(ctx, wait, nil); err != nil {
			return err
		}
		wait = pause
		next, content, err := once[T](ctx, poll, version, &last)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !passes(err):
			return err
		case err != nil:
			tell(Update[T]{Err: err})
			version, last, wait = "", "", longPause
		case content != nil:
			version = next
			tell(Update[T]{Content: content})
		default:
			version = next
		}
	}
}

// once is one poll; the content is nil if nothing has changed.
func once[T any](ctx context.Context, poll Poll, version string, last *string) (string, *T, error) {
	ctx, cancel := context.WithTimeout(failover.AtOnce(ctx), answerWithin)
	defer cancel()
	hold := Hold
	if *last == "" {
		hold = "" // the first answer is wanted at once
	}
	resp, err := poll(ctx, version, hold)
	if err != nil {
		return version, nil, err
	}
	if resp.StatusCode == http.StatusNotModified {
		return version, nil, resp.Body.Close()
	}
	if resp.StatusCode != http.StatusOK {
		return version, nil, client.ProblemOf(resp)
	}
	body, err := client.Body(resp)
	if err != nil {
		return version, nil, err
	}
	next := resp.Header.Get("ETag")
	if string(body) == *last {
		return next, nil, nil
	}
	content, err := client.Decode[T](resp, body)
	if err != nil {
		return version, nil, err
	}
	*last = string(body)
	return next, content, nil
}

// passes reports whether asking again can help.
func passes(err error) bool {
	status := client.Status(err)
	return status == 0 && !errors.Is(err, context.Canceled) || status >= 500 || status == http.StatusTooManyRequests
}
