// Package failover decides which of several controllers gets a request, and when another one
// may get it. A request is made once, unless it only reads or nothing of it can have been done.
package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// connectWithin is how long a connection may take, with TLS, if there is another controller
	// to try.
	connectWithin = 5 * time.Second
	// leaderWithin is how long a request waits for a controller to become the leader. That takes
	// about 10 s if the leader has failed, and up to 20 s more if most members of etcd had.
	leaderWithin = 30 * time.Second
	// A controller says how long to wait before it is asked again, within these bounds.
	shortestPause, usualPause, longestPause = 100 * time.Millisecond, 5 * time.Second, 10 * time.Second

	maxProblem = 1 << 20
)

// Transport makes each request to the controller in use, and to the next one if that may be.
// The one that answered last is in use. At first it is the first.
type Transport struct {
	next http.RoundTripper
	urls []*url.URL
	say  func(string)

	using atomic.Int64
	said  sync.Map
}

// Over gives what puts a Transport over one that connects, for client.Options. The URLs are
// https://host:port; with less than two of them, requests go where they go. say gets each line
// about what takes longer, or is wrong, once.
func Over(urls []string, say func(string)) (func(http.RoundTripper) http.RoundTripper, error) {
	t := &Transport{say: say}
	for _, text := range urls {
		if err := client.CheckURL(text); err != nil {
			return nil, fmt.Errorf("controller URL: %w", err)
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		t.urls = append(t.urls, u)
	}
	return func(next http.RoundTripper) http.RoundTripper {
		t.next = next
		return t
	}, nil
}

type atOnceKey struct{}

// AtOnce makes requests that do not wait for a leader and about which nothing is said: the
// caller asks again by itself and shows why.
func AtOnce(ctx context.Context) context.Context { return context.WithValue(ctx, atOnceKey{}, true) }

// RoundTrip makes the request. It can be made again only if its body, if any, can be read again.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	until := time.Now().Add(leaderWithin)
	patient := r.Context().Value(atOnceKey{}) == nil && repeatable(r)
	for {
		resp, err := t.round(r)
		if err != nil || !patient {
			return resp, err
		}
		wait, ok := withoutLeader(resp)
		if !ok || time.Until(until) < wait {
			return resp, nil
		}
		t.tell(r.Context(), fmt.Sprintf("waiting up to %.0fs for a controller to become the leader", leaderWithin.Seconds()))
		switch ctx := r.Context(); {
		case sleep.For(ctx, wait, nil) == nil:
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, ctx.Err()
		default:
			return resp, nil
		}
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
}

// round asks each controller at most once, beginning with the one in use. If none of them can
// do anything of the request, it gives the answer of the last one that does not reach a leader.
func (t *Transport) round(r *http.Request) (*http.Response, error) {
	var waiting *http.Response
	var failures unreachable
	begin, many := int(t.using.Load()), max(1, len(t.urls))
	for n := range many {
		if n > 0 {
			var err error
			if r, err = again(r); err != nil {
				return nil, err
			}
		}
		at, last := (begin+n)%many, n == many-1
		resp, sent, err := t.attempt(r, at, !last)
		switch {
		case err == nil:
			t.using.Store(int64(at))
			if _, ok := withoutLeader(resp); !ok || last || !repeatable(r) {
				return resp, nil
			}
			waiting = resp
			continue
		case many == 1:
			return nil, err
		}
		t.using.Store(int64((at + 1) % many)) // for the next request
		failures = append(failures, err)
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case r.Context().Err() != nil:
			return nil, err
		case sent && !reads:
			return nil, fmt.Errorf("%w; the request was sent and may have been done, so no other controller got it: check that before you repeat it", err)
		case !repeatable(r):
			return nil, err
		case !last && !errors.Is(err, syscall.ECONNREFUSED):
			t.tell(r.Context(), fmt.Sprintf("%v (trying %s)", err, t.urls[(at+1)%many]))
		}
	}
	if waiting != nil {
		return waiting, nil
	}
	return nil, failures
}

func (t *Transport) tell(ctx context.Context, text string) {
	if ctx.Value(atOnceKey{}) != nil {
		return
	}
	if _, before := t.said.LoadOrStore(text, true); !before {
		t.say(text)
	}
}

// CloseIdleConnections is what http.Client looks for.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// unreachable has one error for each controller: none could be reached.
type unreachable []error

// Error has a line for each.
func (u unreachable) Error() string {
	var b strings.Builder
	b.WriteString("no controller answers")
	for _, err := range u {
		b.WriteString("\n  " + err.Error())
	}
	return b.String()
}

// Unwrap are the errors.
func (u unreachable) Unwrap() []error { return u }

// repeatable reports whether the body of a request can be read again.
func repeatable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// again is the request with its body from the beginning.
func again(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil || r.Body == http.NoBody {
		return r, nil
	}
	var err error
	r.Body, err = r.GetBody()
	return r, err
}

// withoutLeader reports whether a controller has done nothing of the request because it reaches
// no leader, and when to ask again. The answer is read then.
func withoutLeader(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	var p api.Problem
	if err != nil || json.Unmarshal(text, &p) != nil || p.Type != api.ProblemNoLeader {
		return 0, false
	}
	wait := usualPause
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		wait = time.Duration(min(max(seconds, 0), 60)) * time.Second
	}
	return min(max(wait, shortestPause), longestPause), true
}

var errSlow = fmt.Errorf("no connection within %.0fs", connectWithin.Seconds())
