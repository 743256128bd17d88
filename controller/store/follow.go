package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Followed is a shared database while another controller is its leader.
type Followed struct {
	// Feed gives what the leader commits. Follow has it for itself; Close ends it.
	Feed Feed
	// History is what this controller has seen of the database.
	History *History
	// Changed is called after each commit once views see it, one call at a time: Changes of the
	// transaction's collections are what the commit has changed. It may be nil.
	Changed func(*Tx)
	// Waiting is called with the reason when Follow has to wait. It may be nil.
	Waiting func(because string)
	// Name of the database for errors.
	Name string
}

// Feed is what a leader commits: controller/store/etcd.Follower. Errors of Check are *api.Problem.
type Feed interface {
	// Next waits for all records (anew), at first, and then for each commit without a gap. head
	// and changes are those of Term.Commit.
	Next(ctx context.Context) (head []byte, changes map[string][]byte, anew bool, err error)
	// Check fails if what Next has returned may be out of date.
	Check() error
	// Position is the id of the database's cluster and its highest revision that is known.
	Position() (cluster string, revision int64)
	Close() error
}

// ErrNotLeader is in the error of each Update of a store that follows.
var ErrNotLeader = errors.New("the store follows another controller's")

// follower is the engine of a store that follows: all records are in memory, as the leader has
// committed them.
type follower struct {
	ending
	store *Store
	o     Options
	from  Followed

	signer *signer // nil before the first commit
	// committed are the records after the last commit.
	committed atomic.Pointer[records]
	closed    atomic.Bool
	cancel    context.CancelFunc
	idle      chan struct{} // closed when nothing is read from the feed any more
}

// Follow opens a shared database for reading while another controller is its leader. It waits
// until a leader has made the state, with this controller's schema, or ctx ends. Update fails
// always, View while the Feed's Check does. The store ends, as one that is shared with its term
// does, when it cannot follow any more: when a commit is not what a controller with the seal key
// has written, when one is missing, when the history went back, or when the schema is one that
// this controller does not read; Why has the reason. Of o, only Key, Now and Observe count.
func Follow(ctx context.Context, o Options, from Followed) (*Store, error) {
	s := newStore(Options{Now: o.Now, Observe: o.Observe})
	f := &follower{ending: newEnding(), store: s, o: o, from: from, idle: make(chan struct{})}
	s.use(f, nil)
	for {
		because, err := f.next(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("following the store %s: %w", from.Name, err), from.Feed.Close())
		}
		if because == "" {
			break
		}
		if from.Waiting != nil {
			from.Waiting(because)
		}
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go f.run(ctx)
	return s, nil
}

func (f *follower) run(ctx context.Context) {
	defer close(f.idle)
	for {
		because, err := f.next(ctx)
		if err == nil && because != "" {
			err = errors.New(because)
		}
		if err != nil {
			f.end(err)
			return
		}
	}
}

// next takes what comes next. because says why the state cannot be read yet.
func (f *follower) next(ctx context.Context) (because string, err error) {
	text, changes, anew, err := f.from.Feed.Next(ctx)
	if err != nil {
		return "", err
	}
	before := f.committed.Load()
	after, err := f.take(before, text, changes, anew)
	if err != nil {
		return "", err
	}
	if after.sequence == 0 {
		f.committed.Store(after)
		return "no controller has made the state yet", nil
	}
	// First, so that nothing of the new epoch is believed in the old one.
	if err := f.store.adopt(after, anew); err != nil {
		return "", err
	}
	if found := f.store.Schema(); found < Schema() {
		because = fmt.Sprintf("its schema is version %d, and this controller reads version %d: the leader has to migrate it", found, Schema())
	}
	f.committed.Store(after)
	cluster, revision := f.from.Feed.Position()
	f.from.History.Seen(cluster, revision, text)
	if f.from.Changed != nil && before != nil && because == "" {
		f.from.Changed(f.changed(before, after, changes, anew))
	}
	return because, nil
}

// take verifies what the feed has given.
func (f *follower) take(before *records, text []byte, changes map[string][]byte, anew bool) (*records, error) {
	said, err := parseHead(text)
	if err != nil {
		return nil, err
	}
	if text == nil {
		if len(changes) > 0 || !anew {
			return nil, fmt.Errorf("a program that is no controller has changed its head, or %d records without it", len(changes))
		}
		if before != nil && before.sequence > 0 {
			return nil, errors.New("its head is gone")
		}
		return emptyRecords(), nil
	}
	if u := said.Unfinished; u != nil {
		return nil, &UnfinishedError{*u}
	}
	if err := f.store.unlock(f.o.Key, false, said.KeyID); err != nil {
		return nil, err
	}
	if f.signer == nil {
		f.signer = f.store.keys.signer()
	}
	if !anew {
		return f.signer.follow(before, said, changes)
	}
	cluster, revision := f.from.Feed.Position()
	if err := f.from.History.check(seen{Cluster: cluster, Revision: revision, head: said}); err != nil {
		return nil, err
	}
	all := iradix.New[[]byte]().Txn()
	for key, value := range changes {
		all.Insert([]byte(key), value)
	}
	after := &records{tree: all.Commit()}
	return after, f.signer.verify(after, said)
}

// changed is a transaction after a commit that knows what the commit has changed.
func (f *follower) changed(before, after *records, changes map[string][]byte, anew bool) *Tx {
	keys := maps.Clone(changes)
	if anew { // what is gone is not among the changes
		all := before.tree.Root().Iterator()
		for key, _, more := all.Next(); more; key, _, more = all.Next() {
			keys[string(key)] = nil
		}
	}
	tx := &Tx{reader: after, recent: &f.store.recent}
	for path := range keys {
		bucket, key := splitPath(path)
		if key != "" && before.has(bucket) {
			tx.noted(bucket, key, valueBefore{value: before.get(bucket, key)})
		} else if key != "" {
			tx.noted(bucket, key, valueBefore{})
		}
	}
	return tx
}

func (f *follower) check() error {
	if f.closed.Load() {
		return errClosed
	}
	if why := f.why(); why != nil {
		return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
			"this controller does not follow the leader any more: ask another one, or this one again once it does"), why)
	}
	return f.from.Feed.Check()
}

func (f *follower) view(fn func(snapshot) error) error {
	if err := f.check(); err != nil {
		return err
	}
	return fn(f.committed.Load())
}

func (f *follower) transact(func(reader) writeSet) error {
	if f.closed.Load() {
		return errClosed
	}
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
		"this controller is not the leader, so nothing of this request was kept: ask another one"), ErrNotLeader)
}

func (f *follower) close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.cancel()
	<-f.idle
	return errors.Join(f.from.Feed.Close(), f.from.History.flush())
}

func emptyRecords() *records { return &records{tree: iradix.New[[]byte]()} }
