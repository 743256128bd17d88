package openstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// maxAnswer is the longest body that is read, in bytes. A server is about 4 KiB and
	// Nova's pages have a thousand.
	maxAnswer = 32 << 20
	// maxAttempts at one call.
	maxAttempts = 4
	// firstPause is about how long the second attempt at a call waits; each further one
	// waits twice as long.
	firstPause = 250 * time.Millisecond
)

var errTooLong = said(fmt.Sprintf("the answer is longer than %d MiB", maxAnswer>>20))

// transport makes each call with its attempts. All calls of this package may be made
// twice: they read, write one value, or remove one thing.
type transport struct {
	base    *http.Transport
	timeout time.Duration
	// pause is about how long the second attempt waits.
	pause   time.Duration
	observe func(service, call string, status int)
}

// RoundTrip answers with a body that is in memory, so that what a time-out or a broken
// connection leaves half read is an attempt that failed.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), 2*t.timeout)
	defer cancel()
	called := callOf(req)
	for attempt := 1; ; attempt++ {
		answer, err := t.once(ctx, req)
		t.observe(called.service, called.call, status(answer))
		pause, again := nextAttempt(answer, err, t.pause, attempt)
		if !again || !wait(ctx, pause) {
			return answer, err
		}
	}
}

func status(answer *http.Response) int {
	if answer == nil {
		return 0
	}
	return answer.StatusCode
}

func (t *transport) once(ctx context.Context, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	req = req.Clone(ctx)
	if req.GetBody != nil {
		var err error
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	answer, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	answer.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, errTooLong
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// nextAttempt reports whether a further one can help, and how long to wait before it.
func nextAttempt(answer *http.Response, err error, pause time.Duration, attempt int) (time.Duration, bool) {
	pause <<= attempt - 1
	pause = pause/2 + rand.N(pause) // controllers that lost a cloud at once come back one by one
	switch {
	case attempt == maxAttempts, errors.Is(err, errTooLong), untrusted(err) != "":
		return 0, false
	case err != nil:
		return pause, true
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return max(pause, retryAfter(answer.Header.Get("Retry-After"), time.Now())), true
	}
	return 0, false
}

// retryAfter is how long a service asks to be left alone, in seconds or until a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, 86400)) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return date.Sub(now)
	}
	return 0
}

// wait is false if the time of the whole call would be over by then.
func wait(ctx context.Context, pause time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Now().Add(pause).After(end) {
		return false
	}
	return sleep.For(ctx, pause, nil) == nil
}
