package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/nodehitch/nodehitch/controller/traffic/caller"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// stall is how long a body may stand still, or an answer that has begun.
const stall = time.Minute

// headerAuthenticated is in the informational answer by which the leader tells who the
// caller is, for the limits of connections.
const headerAuthenticated = "Nodehitch-Authenticated"

// ForwarderOptions are what a Forwarder is made of.
type ForwarderOptions struct {
	// ID is this replica's.
	ID string
	// Leader is where the leader listens for replicas, https://HOST:PORT; "" while there is none.
	Leader func() string
	Client *Client
	// Polls holds polls here; nil if the leader holds them.
	Polls *Polls
	Log   *slog.Logger
}

// Forwarder hands requests to the leader, with who their callers are, and its answers back. It
// makes no request twice but for polls that it holds: if the leader does not answer, it answers
// 503, or ends the connection if a part of the answer has left.
type Forwarder struct {
	ForwarderOptions
	proxy    *httputil.ReverseProxy
	draining context.Context
	drain    context.CancelFunc
}

// NewForwarder makes a Forwarder.
func NewForwarder(o ForwarderOptions) *Forwarder {
	f := &Forwarder{ForwarderOptions: o}
	f.draining, f.drain = context.WithCancel(context.Background())
	f.proxy = &httputil.ReverseProxy{Transport: o.Client, Rewrite: rewrite, ModifyResponse: keep, ErrorHandler: f.failed,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	return f
}

// Drain ends requests without a body, which may be held at the leader, with 503, and answers
// those that are held here, now and from now on. Call it when the shutdown begins.
func (f *Forwarder) Drain() { f.drain() }

type outwardKey struct{}

// outward is what Rewrite needs for a request.
type outward struct {
	leader *url.URL
	caller caller.Caller
	poll   *poll // nil if it is not held here
}

var errNoLeader = errors.New("no replica is the leader")

// ServeHTTP forwards one request.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := caller.Of(r, f.ID)
	if err := who.Set(http.Header{}); err != nil {
		refuse(w, wire.NewProblem(wire.ProblemInvalid, err.Error()))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	r = r.WithContext(ctx) // a copy: the server looks at the body of its own request whether the caller waits to send it
	wanted, want := context.WithCancelCause(ctx)
	defer want(errAnswered)
	if r.ContentLength == 0 {
		connlimit.Working(ctx)
		defer context.AfterFunc(f.draining, cancel)()
		if f.draining.Err() != nil {
			cancel() // AfterFunc calls it in another goroutine, maybe after the request has left
		}
	} else {
		r.Body = &body{ReadCloser: connlimit.MovingBody(r.Body, control, stall), ctx: ctx, control: control, wanted: wanted}
		if r.Header.Get("Expect") == "" {
			want(nil)
		}
	}
	w = &answer{ResponseWriter: connlimit.MovingAnswer(w, control, stall), ctx: ctx, want: want}
	if key := f.Polls.key(r); key != "" {
		f.hold(w, r, key, who)
		return
	}
	f.ask(w, r, outward{caller: who})
}

// ask makes the request to the leader.
func (f *Forwarder) ask(w http.ResponseWriter, r *http.Request, o outward) {
	var err error
	if o.leader, err = url.Parse(f.Leader()); err != nil || o.leader.Host == "" {
		f.failed(w, r, errors.Join(errNoLeader, err))
		return
	}
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outwardKey{}, o)))
}

// rewrite makes the request to the leader. It says who the caller is last, so that nothing of
// the caller can.
func rewrite(p *httputil.ProxyRequest) {
	out := p.In.Context().Value(outwardKey{}).(outward)
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = out.leader.Scheme, out.leader.Host, p.In.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // also if it is malformed: the API refuses it
	p.Out.Header.Del("Connection")
	p.Out.Header.Del("Upgrade")
	_ = out.caller.Set(p.Out.Header) // ServeHTTP has checked it
	p.Out.Header.Del(headerHold)
	if out.poll != nil {
		p.Out.Header.Set(headerHold, out.poll.left.String())
	}
}

// failed answers a request that the leader has not answered.
func (f *Forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errHeld) {
		return
	}
	if f.draining.Err() == nil && r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	f.Log.DebugContext(r.Context(), "the leader has not answered", "method", r.Method, "path", r.URL.Path, "error", err)
	problem, detail := wire.ProblemUnavailable, "this replica has no answer of the leader: check whether the request was done before you try again"
	switch {
	case errors.Is(err, errNoLeader), errors.Is(err, errNotSent):
		problem, detail = wire.ProblemNoLeader, "this replica does not reach the leader, so nothing of this request was done: try again"
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		problem, detail = wire.ProblemNoLeader, "this replica has no answer of the leader: try again"
	}
	refuse(w, wire.NewProblem(problem, detail))
}

// refuse answers with problem details (RFC 9457).
func refuse(w http.ResponseWriter, p *wire.Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone
}

// body ends its deadline with its last byte: then the caller waits for the leader.
type body struct {
	io.ReadCloser
	ctx     context.Context // of the request that it is the body of
	control *http.ResponseController
	// wanted ends once the leader has let in a caller that asks before it sends the body (Expect),
	// with any informational answer: net/http's server sends no 100 after another one.
	wanted context.Context // a signal
}

// errAnswered says that the leader does not want the body.
var errAnswered = errors.New("the request was answered")

func (b *body) Read(p []byte) (int, error) {
	<-b.wanted.Done()
	if err := context.Cause(b.wanted); !errors.Is(err, context.Canceled) || b.ctx.Err() != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
		connlimit.Working(b.ctx)
	}
	return n, err
}

// answer keeps the informational answers of the leader, which are for this replica.
type answer struct {
	http.ResponseWriter
	ctx  context.Context // of the request that it answers
	want context.CancelCauseFunc
}

// WriteHeader begins the answer.
func (w *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.want(errAnswered)
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.want(nil)
	var most int
	var who string
	if _, err := fmt.Sscanf(w.Header().Get(headerAuthenticated), "%d %q", &most, &who); err == nil {
		connlimit.Authenticated(w.ctx, who, most)
	}
}

// Unwrap gives http.ResponseController the connection.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// forwarded is the API's side: a request that another replica has received.
func (l *leaderHandler) forwarded(w http.ResponseWriter, r *http.Request) {
	restored, err := caller.Restore(r)
	if err != nil {
		refuse(w, wire.NewProblem(wire.ProblemInvalid, err.Error()))
		return
	}
	ctx := connlimit.Elsewhere(restored.Context(), func(who string, most int) {
		h := w.Header()
		h.Set(headerAuthenticated, strconv.Itoa(most)+" "+strconv.Quote(who))
		// Only if there is a Content-Length does net/http copy the headers. Without a copy, it may
		// read them while the API sets those of its answer, if the other replica ends the request now.
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Content-Length")
		h.Del(headerAuthenticated)
	})
	if ctx, err = l.held(ctx, w, restored); err != nil {
		refuse(w, wire.NewProblem(wire.ProblemInvalid, err.Error()))
		return
	}
	l.api.ServeHTTP(hop{w}, restored.WithContext(ctx))
}

// hop is an answer to another replica, which sees to it that the caller takes it. A deadline for
// writing would end the request at its time also while a large upload is still coming: HTTP/2
// does not wait for something to be written.
type hop struct{ http.ResponseWriter }

// SetWriteDeadline does nothing.
func (hop) SetWriteDeadline(time.Time) error { return nil }

// Unwrap gives http.ResponseController the connection.
func (h hop) Unwrap() http.ResponseWriter { return h.ResponseWriter }
