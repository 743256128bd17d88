package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/traffic/caller"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
)

// Polls are the polls for a configuration that are held at a replica that is not the leader. The
// leader decides: it is asked when a poll comes, and again when the replica sees a change that
// may be of the poll's node. Between that it knows nothing of the poll.
type Polls struct {
	// Hub wakes them by what the replica follows.
	Hub *notify.Hub
	// Follows says that the replica sees each change. Once it does not, Hub.All is called.
	Follows func() bool
	// Held counts a poll that is held (+1) and let go (-1).
	Held func(delta int)
}

// headerHold tells the leader that the replica can hold the request, for at most so long. In the
// leader's answer it is for how long to hold it; the answer then counts if nothing has changed.
const headerHold = "Nodehitch-Hold"

// unbounded is what a replica offers before the leader has said for how long to hold a poll.
const unbounded = time.Hour

// poll is one that is held here.
type poll struct {
	left   time.Duration // to be held; unbounded until the leader has said
	status int           // what the leader has answered, 0 if it was passed on
	header http.Header
}

// errHeld says that the answer is kept back.
var errHeld = errors.New("the poll is held")

// key is what wakes the poll, "" if the request is none that can be held here. Whether the
// caller is that node is for the leader to say.
func (p *Polls) key(r *http.Request) string {
	if p == nil || r.Method != http.MethodGet || r.ContentLength != 0 || r.URL.Path != "/v1/node/config" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	return pki.NodeNamed(r.TLS.PeerCertificates[0])
}

// hold asks the leader, and again after each change, until it answers with something new, or the
// time that it has said is over, the client is gone, or the shutdown begins: then the answer is
// what it was. Once changes are not seen any more, the leader is asked for the last time.
func (f *Forwarder) hold(w http.ResponseWriter, r *http.Request, key string, who caller.Caller) {
	waiting, end := context.WithCancel(r.Context())
	defer end()
	timer := time.AfterFunc(unbounded, end)
	defer timer.Stop()
	p := &poll{left: unbounded}
	var over time.Time
	defer func() { // also if the client goes while the leader is asked
		if !over.IsZero() {
			f.Polls.Held(-1)
		}
	}()
	_ = f.Polls.Hub.Poll(waiting, key, func() (done bool, err error) { // which never fails
		first, unseen := over.IsZero(), !f.Polls.Follows()
		switch {
		case first && unseen:
			f.ask(w, r, outward{caller: who})
			return true, nil
		case !first:
			if p.left = time.Until(over); unseen || p.left <= 0 {
				return true, nil
			}
		}
		p.status = 0
		f.ask(w, r, outward{caller: who, poll: p})
		if first && p.status != 0 {
			over = time.Now().Add(p.left)
			timer.Reset(p.left)
			f.Polls.Held(+1)
		}
		return p.status == 0, nil
	})
	if p.status != 0 && !f.Polls.Follows() { // for how long is unknown: the process may have been frozen
		p.left, p.status = 0, 0
		f.ask(w, r, outward{caller: who, poll: p})
	}
	if p.status != 0 {
		maps.Copy(w.Header(), p.header)
		w.WriteHeader(p.status)
	}
}

// keep keeps an answer of the leader back if it is to be held here.
func keep(answer *http.Response) error {
	p := answer.Request.Context().Value(outwardKey{}).(outward).poll
	text := answer.Header.Get(headerHold)
	answer.Header.Del(headerHold)
	if p == nil || text == "" {
		return nil
	}
	left, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("the header %s of the leader: %w", headerHold, err)
	}
	answer.Header.Del("Date") // it is that of when it is given
	p.left, p.status, p.header = left, answer.StatusCode, answer.Header
	return errHeld
}

// held is the leader's side: the API does not wait for a request that another replica can hold. A
// commit may have woken the poll there before this process has seen that it is done; nothing
// would wake the poll again, so awaitCommit waits for it.
func (l *leaderHandler) held(ctx context.Context, w http.ResponseWriter, r *http.Request) (context.Context, error) {
	text := r.Header.Get(headerHold)
	if text == "" {
		return ctx, nil
	}
	longest, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("the header %s of a replica: %w", headerHold, err)
	}
	l.awaitCommit()
	return notify.Elsewhere(ctx, longest, func(left time.Duration) { w.Header().Set(headerHold, left.String()) }), nil
}
