package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Why a Follower cannot be believed.
var (
	// ErrOtherHistory: etcd's history is not the one that was followed.
	ErrOtherHistory = errors.New("etcd's history is not the one that this controller has followed")
	// ErrBehind: etcd did not confirm in time that nothing else was committed.
	ErrBehind = errors.New("etcd has not confirmed in time that this controller knows all that was committed")
)

const (
	// maxAge is how old what a follower has may be.
	maxAge = 3 * time.Second
	// confirmEvery is how often etcd is asked what was committed last.
	confirmEvery = time.Second
)

// freshness is how old what a follower has is at most. A member of etcd that is cut off goes
// on to tell of a watch's progress. So a quorum is asked what the last commit is: what the
// follower has is as old as the last question whose answer names a commit that it has.
type freshness struct {
	client *Client
	stale  func()
	ctx    context.Context
	cancel context.CancelFunc
	// lags tells that the watch gives nothing while a quorum has more.
	lags chan struct{}
	idle chan struct{} // closed when etcd is no longer asked

	mu    sync.Mutex
	taken commit
	// more is closed at the next commit that is taken; nil if nobody waits.
	more chan struct{}
	// asked is when the last question was asked that etcd has confirmed; zero before the first.
	asked  time.Time
	expiry *time.Timer
	why    error
}

func newFreshness(c *Client, stale func()) *freshness {
	f := &freshness{client: c, stale: stale, lags: make(chan struct{}, 1), idle: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.expiry = time.AfterFunc(time.Hour, f.expire)
	f.expiry.Stop()
	return f
}

// took notes that the caller of Next has the commit.
func (f *freshness) took(c commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = commit{revision: c.revision, head: c.head}
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// last is the commit that was taken last, and a channel that is closed at the next.
func (f *freshness) last() (commit, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return f.taken, f.more
}

// confirm asks until the end.
func (f *freshness) confirm(cluster string) {
	defer close(f.idle)
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	for f.ctx.Err() == nil {
		taken, _ := f.last()
		sent := time.Now()
		ctx, cancel := context.WithTimeout(f.ctx, confirmEvery)
		var at Position
		_, err := f.client.look(ctx, func(p Position) { at = p })
		cancel()
		switch {
		case err != nil:
			f.client.o.Log.Debug("etcd does not say what was committed last", "error", err)
		case at.Cluster != cluster:
			f.end(fmt.Errorf("%w: another cluster of etcd answers", ErrOtherHistory))
		case at.HeadRevision < taken.revision:
			f.end(fmt.Errorf("%w: its last commit is of revision %d, and this controller has one of %d", ErrOtherHistory, at.HeadRevision, taken.revision))
		default:
			f.await(sent, at)
		}
		select {
		case <-f.ctx.Done():
		case <-tick.C:
		}
	}
}

// await waits until what a quorum has told is taken. A watch that begins because the one before
// gave nothing has twice its time, up to pageLimit: a large commit may take that long to come.
func (f *freshness) await(sent time.Time, at Position) {
	patience := lagLimit
	for {
		taken, more := f.last()
		if taken.revision == at.HeadRevision && !bytes.Equal(taken.head, at.Head) {
			f.end(fmt.Errorf("%w: the head of revision %d is another one", ErrOtherHistory, at.HeadRevision))
			return
		}
		if taken.revision >= at.HeadRevision {
			f.confirmed(sent)
			return
		}
		limit := time.NewTimer(patience)
		select {
		case <-f.ctx.Done():
		case <-more:
			patience = lagLimit
		case <-limit.C:
			patience = min(2*patience, pageLimit)
			select {
			case f.lags <- struct{}{}:
			default:
			}
		}
		limit.Stop()
		if f.ctx.Err() != nil {
			return
		}
	}
}

func (f *freshness) confirmed(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		f.asked = sent
		f.expiry.Reset(maxAge - time.Since(sent))
	}
}

// expire tells that Check fails from now on.
func (f *freshness) expire() {
	if err := f.check(); err != nil && f.stale != nil {
		f.stale()
	}
}

func (f *freshness) check() error {
	_, why := f.confirmation()
	switch {
	case why == nil:
		return nil
	case errors.Is(why, ErrBehind):
		return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
			"this controller does not know whether what it holds is up to date: ask another one, or this one again once it does"), why)
	}
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
		"this controller does not follow the leader any more: ask another one, or this one again once it does"), why)
}

// confirmation is when the last confirmed question was asked, and why what was taken does not
// count, nil if it does.
func (f *freshness) confirmation() (asked time.Time, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if why = f.why; why == nil && (f.asked.IsZero() || time.Since(f.asked) >= maxAge) {
		why = ErrBehind
	}
	return f.asked, why
}

func (f *freshness) over() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

func (f *freshness) end(why error) {
	f.mu.Lock()
	first := f.why == nil
	if first {
		f.why = why
		f.expiry.Stop()
		f.cancel()
	}
	f.mu.Unlock()
	if !first || errors.Is(why, ErrClosed) {
		return
	}
	f.client.o.Log.Warn("this controller does not follow the leader any more", "because", why)
	if f.stale != nil {
		f.stale()
	}
}
