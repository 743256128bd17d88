// Package store keeps all that the controller must not forget: records as JSON in a
// bucket for each kind, secrets sealed. They lie in one bbolt file, or in a database that
// several controllers share. It knows nothing of what the records mean, and of package files
// only their records; the content of those lies on disk beside it.
package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Options says where the store is and what unseals it.
type Options struct {
	// Path of the database file. Its directory is made (0700) when it is missing.
	Path string
	// Shared is set instead of Path if several controllers share the database.
	Shared *Shared
	// Key unseals the secrets.
	Key KeySource
	// Moved opens a store that was marked as moved, to finish the migration.
	Moved bool
	// Now is the clock, time.Now when nil. Only epochs come from it.
	Now func() time.Time
	// LockTimeout is how long to wait for another process to let go of the file,
	// one second when zero.
	LockTimeout time.Duration
	// BeforeMigration is called with the open store if its schema is older than this
	// controller's. If it returns an error, the store stays as it is. It may be nil: for
	// a store that has a backup, because it was just taken from one.
	BeforeMigration func(*Store) error
	// Derive adds to each transaction what follows from what it has changed, as its last step;
	// nil adds nothing. If it returns an error, none of the transaction is kept.
	Derive func(*Tx) error
	// Observe is told how long each transaction took, a writing one with its wait for other
	// writers and for the disk, and whether the disk did not take it; it may be nil.
	Observe func(write bool, took time.Duration, failed bool)
}

// Store is the open database. It is safe for concurrent use; one process has it
// open at a time. One that is shared ends with the term: then each View and Update fails,
// and Over is closed.
type Store struct {
	engine  engine
	updates group
	meta    atomic.Pointer[meta]
	keys    *keys
	now     func() time.Time
	derive  func(*Tx) error
	observe func(write bool, took time.Duration, failed bool)
	recent  recent
}

// Open opens the store and creates it when it does not exist. A store of an older schema is
// brought to this controller's. Open changes nothing and says what to do when the file is
// open in another process, has a newer schema (*SchemaError), or belongs to another key.
func Open(o Options) (*Store, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	s := newStore(o)
	name, err := s.openEngine(o)
	if err != nil {
		return nil, err
	}
	if err := s.start(o); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", name, err), s.engine.close())
	}
	return s, nil
}

func newStore(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{now: o.Now, derive: o.Derive, observe: o.Observe, recent: newRecent()}
	s.meta.Store(new(meta))
	return s
}

// use gives the store its engine, and the limits of each commit, nil for none.
func (s *Store) use(e engine, most *limits) {
	s.engine, s.updates.transact, s.updates.limits = e, e.transact, most
}

func (s *Store) openEngine(o Options) (name string, err error) {
	if o.Shared != nil {
		return o.Shared.Name, s.openShared(o)
	}
	file, err := openBolt(o.Path, o.LockTimeout)
	if err != nil {
		return "", err
	}
	s.use(file, nil)
	return o.Path, nil
}

// start checks all that may refuse the store before it changes anything.
func (s *Store) start(o Options) error {
	isNew := false
	err := s.engine.view(func(r snapshot) error {
		if isNew = !r.has(bucketMeta); isNew {
			return nil
		}
		return s.adopt(r, true)
	})
	if err == nil {
		err = s.unlock(o.Key, isNew, s.meta.Load().keyID)
	}
	if err == nil && isNew {
		err = s.create()
	}
	if err != nil {
		return err
	}
	switch moved, found, err := s.Moved(); {
	case err != nil:
		return err
	case found && !o.Moved:
		return &MovedError{moved}
	case s.Schema() >= Schema():
		return nil
	}
	if o.BeforeMigration != nil {
		if err := o.BeforeMigration(s); err != nil {
			return err
		}
	}
	return s.migrate()
}

// Close waits for running transactions and lets other processes open the file.
func (s *Store) Close() error {
	s.updates.busy.Lock()
	defer s.updates.busy.Unlock()
	return s.engine.close()
}

// AwaitCommit waits for the end of a commit that is on its way. A store that follows this one
// may have it already, because the database tells all of a commit at the same time.
func (s *Store) AwaitCommit() {
	s.updates.busy.Lock()
	defer s.updates.busy.Unlock()
}

// Over is closed when the store has ended by itself, and takes no change any more: see
// ErrOutcomeUnknown, Shared.Term and Follow.
func (s *Store) Over() <-chan struct{} { return s.engine.over() }

// Why is why the store has ended by itself, nil before that.
func (s *Store) Why() error { return s.engine.why() }

// Schema is that of the file: an older one than this controller's only in BeforeMigration.
func (s *Store) Schema() int { return s.meta.Load().schema }

// Epoch names this life of the state: Unix seconds at which it began. It is the
// same over restarts; BeginEpoch begins another.
func (s *Store) Epoch() int64 { return s.meta.Load().epoch }

// View runs fn on one consistent snapshot. Writes in it fail.
func (s *Store) View(fn func(*Tx) error) error {
	defer s.observed(time.Now(), false, new(bool))
	defer faultsPanic()()
	return s.engine.view(func(r snapshot) error { return fn(&Tx{reader: r, snapshot: r, recent: &s.recent}) })
}

// Update runs fn once, as one transaction, alone among writers. When it returns nil
// all that fn wrote is on disk; when fn returns an error or panics, none of it is.
// If the disk fails, none of it is either, and the error is an *api.Problem that says what
// to do; but see ErrOutcomeUnknown.
//
// Updates that come at the same time share a commit: fn sees what those before it
// wrote, and no request is answered before that is on disk. An fn that changes nothing
// costs no commit.
func (s *Store) Update(fn func(*Tx) error) error {
	failed := false
	defer s.observed(time.Now(), true, &failed)
	defer faultsPanic()()
	tx := &Tx{recent: &s.recent}
	var own error
	err := s.updates.update(func(w writer) error {
		tx.reader, tx.writer = w, w
		if own = fn(tx); own == nil && s.derive != nil {
			own = s.derive(tx)
		}
		return own
	})
	if err != nil {
		failed = own == nil || !errors.Is(err, own)
		return err
	}
	for _, told := range tx.committed {
		told()
	}
	return nil
}

func (s *Store) observed(began time.Time, write bool, failed *bool) {
	if s.observe != nil {
		s.observe(write, time.Since(began), *failed)
	}
}

// Tx is a transaction. It must not be used after the function that got it returns.
type Tx struct {
	reader   reader
	writer   writer   // nil in a View
	snapshot snapshot // nil in an Update
	recent   *recent
	by       string
	// before is what each key had that was written, by bucket.
	before map[string]map[string]valueBefore
	// epochs are the ones before and after the transaction, nil if it has begun none.
	epochs    *Change[int64]
	told      []Told
	committed []func()
}

// OnCommit runs fn once the transaction is on disk and other writers may continue;
// never, when it is rolled back. Several run in the order in which they were given.
func (t *Tx) OnCommit(fn func()) { t.committed = append(t.committed, fn) }
