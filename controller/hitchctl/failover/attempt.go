package failover

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// attempt makes the request to one controller. sent says that something of it may have left.
func (t *Transport) attempt(r *http.Request, at int, bounded bool) (resp *http.Response, sent bool, err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	slow := time.NewTimer(0)
	slow.Stop()
	if bounded {
		slow = time.AfterFunc(connectWithin, func() { cancel(errSlow) })
	}
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if bounded && !slow.Stop() { // both at once: the request may leave after this attempt
				written.Store(true)
			}
		},
		// The first one is told of before anything leaves.
		WroteHeaderField: func(string, []string) { written.Store(true) },
	})
	out := r.Clone(ctx)
	if len(t.urls) > 1 {
		u := t.urls[at]
		out.URL.Scheme, out.URL.Host, out.Host = u.Scheme, u.Host, u.Host
	}
	resp, err = t.next.RoundTrip(out)
	slow.Stop()
	if err != nil {
		cancel(nil)
		return nil, written.Load(), err
	}
	resp.Body = &answer{resp.Body, cancel}
	return resp, true, nil
}

// answer ends the context of an attempt with the answer's body.
type answer struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (a *answer) Close() error {
	defer a.cancel(nil)
	return a.ReadCloser.Close()
}
