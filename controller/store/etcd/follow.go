package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// retryAfter is how long to wait before etcd is asked again for what it did not give.
	retryAfter = 100 * time.Millisecond
	// lagLimit is how long a watch may give nothing while a quorum has more, before another begins.
	lagLimit = time.Second
)

// Follower gives what the leader commits to a controller that is not the leader: at first all
// records, then each commit, in order and without a gap. Next is called by one goroutine; the
// other methods may be called at any time.
type Follower struct {
	client *Client
	fresh  *freshness

	// What Next has read.
	loaded  bool
	cluster string
	// revision is the highest one whose changes were read, and read are those that Next has
	// not returned yet.
	revision int64
	read     []commit
	watch    *watch
	last     commit
	begin    sync.Once
}

// commit is one revision of etcd in which records or the head were changed.
type commit struct {
	revision int64
	head     []byte
	changes  map[string][]byte
}

// Follow makes a Follower. It calls stale, which may be nil, each time Check begins to fail.
func (c *Client) Follow(stale func()) *Follower {
	return &Follower{client: c, fresh: newFreshness(c, stale)}
}

// Next waits for what comes next: at first, and each time etcd has compacted what would come
// next, all records (anew), else one commit. head and changes are those of Term.Commit: values
// by key, nil for a key that was deleted, and a nil head if the commit put none. What the call
// before has returned is then what the caller has. An error is final.
func (f *Follower) Next(ctx context.Context) (head []byte, changes map[string][]byte, anew bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.fresh.ctx, cancel)()
	f.fresh.took(f.last)
	for {
		switch {
		case len(f.read) > 0:
			f.last, f.read = f.read[0], f.read[1:]
			return f.last.head, f.last.changes, false, nil
		case !f.loaded:
			err = f.load(ctx)
			anew = err == nil
		default:
			err = f.more(ctx)
		}
		switch {
		case anew:
			f.begin.Do(func() { go f.fresh.confirm(f.cluster) })
			return f.last.head, f.last.changes, true, nil
		case f.client.refusal(err) != nil:
			return nil, nil, false, f.client.refusal(err)
		case err != nil:
			f.client.o.Log.Debug("etcd does not give what the leader has committed", "error", err)
			_ = sleep.For(ctx, retryAfter, nil) // whether ctx is over is asked below
		}
		if ctx.Err() != nil {
			return nil, nil, false, f.ended(ctx, err)
		}
	}
}

// ended says why Next ends: what it was called with, or this Follower, is over.
func (f *Follower) ended(ctx context.Context, last error) error {
	if why := f.fresh.over(); why != nil {
		return why
	}
	return errors.Join(fmt.Errorf("following the leader: %w", context.Cause(ctx)), last)
}

func (f *Follower) load(ctx context.Context) error {
	if err := f.client.connect(); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	all := map[string][]byte{}
	at, err := f.client.load(ctx, func(key string, value []byte) error {
		all[key] = value
		return nil
	})
	if err != nil {
		return err
	}
	if f.cluster != "" && f.cluster != at.Cluster {
		f.fresh.end(fmt.Errorf("%w: another cluster of etcd answers", ErrOtherHistory))
		return nil
	}
	f.loaded, f.cluster, f.revision = true, at.Cluster, at.Revision
	f.last = commit{revision: at.HeadRevision, head: at.Head, changes: all}
	return nil
}

// more reads what the watch gives.
func (f *Follower) more(ctx context.Context) error {
	if f.watch == nil {
		f.watch = f.client.watch(f.fresh.ctx, f.revision+1)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-f.fresh.lags:
		f.again()
		return nil
	case answer, open := <-f.watch.answers:
		err := answer.Err()
		if !open && err == nil {
			err = errors.New("the watch has ended")
		}
		if err != nil {
			f.again()
			if errors.Is(err, rpctypes.ErrCompacted) {
				f.loaded = false
				return nil
			}
			if code(err) == codes.Unauthenticated { // the password's token is too old; the next question gets another
				return fmt.Errorf("watching etcd: %s", err.Error())
			}
			return fmt.Errorf("watching etcd: %w", err)
		}
		if clusterOf(&answer.Header) != f.cluster {
			f.fresh.end(fmt.Errorf("%w: another cluster of etcd answers", ErrOtherHistory))
			return nil
		}
		f.take(answer.Events)
		return nil
	}
}

// again has the next read begin a watch of its own, which etcd's client may make at another
// member.
func (f *Follower) again() {
	f.watch.cancel()
	f.watch = nil
}

// take gathers the changes of each revision. An answer has all of a revision or nothing. A
// member that lags behind the beginning of a watch may give older ones, too.
func (f *Follower) take(events []*clientv3.Event) {
	prefix, from := f.client.records(), f.revision
	for _, e := range events {
		if e.Kv.ModRevision <= from {
			continue
		}
		f.revision = e.Kv.ModRevision
		value := e.Kv.Value
		if e.Type == clientv3.EventTypeDelete {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		key := string(e.Kv.Key)
		record, isRecord := strings.CutPrefix(key, prefix)
		if !isRecord && key != f.client.headKey() {
			continue
		}
		if n := len(f.read); n == 0 || f.read[n-1].revision != f.revision {
			f.read = append(f.read, commit{revision: f.revision, changes: map[string][]byte{}})
		}
		c := &f.read[len(f.read)-1]
		if isRecord {
			c.changes[record] = value
		} else {
			c.head = value
		}
	}
}

// Check returns nil while what the caller has is all that was committed three seconds ago.
// Else its error is an *api.Problem.
func (f *Follower) Check() error { return f.fresh.check() }

// Confirmed is when etcd was asked for the last time what was committed last, with an answer that
// names a commit that the caller has; zero if there was none yet. why is nil while Check is.
func (f *Follower) Confirmed() (at time.Time, why error) { return f.fresh.confirmation() }

// Position is etcd's cluster and the highest revision that was read. Only the caller of Next
// may call it.
func (f *Follower) Position() (cluster string, revision int64) { return f.cluster, f.revision }

// Close ends it.
func (f *Follower) Close() error {
	f.fresh.end(ErrClosed)
	f.begin.Do(func() { close(f.fresh.idle) }) // nothing has begun
	<-f.fresh.idle
	return nil
}

// watch is one watch of all keys, on a stream of its own.
type watch struct {
	cancel  context.CancelFunc
	answers chan clientv3.WatchResponse
}

// watch does not wait for etcd, as its client does.
func (c *Client) watch(ctx context.Context, from int64) *watch {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	w := &watch{cancel: cancel, answers: make(chan clientv3.WatchResponse)}
	go func() {
		watcher := clientv3.NewWatcher(c.etcd)
		defer func() { _ = watcher.Close() }()
		defer close(w.answers)
		for answer := range watcher.Watch(ctx, c.o.Prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithFragment()) {
			select {
			case w.answers <- answer:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}
