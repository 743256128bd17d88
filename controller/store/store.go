// Package store keeps all that the controller must not forget, in one bbolt file:
// records as JSON in a bucket for each kind, secrets sealed. It knows nothing of
// what the records mean, and of package files only their records; the content of
// those lies on disk beside it.
package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// Options says where the store is and what unseals it.
type Options struct {
	// Path of the database file. Its directory is made (0700) when it is missing.
	Path string
	// Key unseals the secrets.
	Key KeySource
	// Now is the clock, time.Now when nil. Only epochs come from it.
	Now func() time.Time
	// LockTimeout is how long to wait for another process to let go of the file,
	// one second when zero.
	LockTimeout time.Duration
	// Observe is told how long each transaction took, a writing one with its wait
	// for other writers and its fsync; nil tells nobody.
	Observe func(write bool, took time.Duration)
}

// Store is the open database. It is safe for concurrent use; one process has it
// open at a time.
type Store struct {
	db      *bbolt.DB
	path    string
	keys    *keys
	now     func() time.Time
	observe func(write bool, took time.Duration)
	epoch   atomic.Int64
	doubt   chan struct{}
	doubted sync.Once
	origin  atomic.Pointer[Origin]
}

// A read transaction keeps bbolt from growing its memory map, so a slow backup
// would stop every write of a store that outgrows the map. Address space costs
// nothing: reserve more than the state of thousands of instances needs.
const mapReserve = 1 << 30

// Open opens the store and creates it when it does not exist. It changes nothing
// and says what to do when the file is held by another process, was written by a
// newer version, or belongs to another key; and it brings the records of an older
// version up to date in one transaction.
func Open(o Options) (*Store, error) {
	return open(o, migrations)
}

func open(o Options, steps []migration) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if err := preparePath(o.Path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(o.Path, 0o600, &bbolt.Options{
		Timeout:         o.LockTimeout,
		InitialMmapSize: mapReserve,
		FreelistType:    bbolt.FreelistMapType,
		OpenFile:        openIntact(o.LockTimeout),
	})
	if err != nil {
		return nil, explainOpen(o.Path, err)
	}
	s := &Store{db: db, path: o.Path, now: o.Now, observe: o.Observe, doubt: make(chan struct{})}
	if err := s.start(o.Key, steps); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", o.Path, err), db.Close())
	}
	return s, nil
}

// start checks all that may refuse the file before it changes anything.
func (s *Store) start(source KeySource, steps []migration) error {
	m, err := s.readMeta()
	if err != nil {
		return err
	}
	if m.schema > len(steps) {
		return fmt.Errorf("its schema is version %d and this controller knows versions up to %d: "+
			"run the newer controller that wrote it, or restore a backup of the older one", m.schema, len(steps))
	}
	if m.schema >= schemaOfSums {
		if err := s.db.View(verifyRecords); err != nil {
			return err
		}
	}
	secret, err := source.load(m.keyID == "")
	if err != nil {
		return err
	}
	if s.keys, err = deriveKeys(secret); err != nil {
		return err
	}
	if m.keyID != "" && m.keyID != s.keys.id {
		return fmt.Errorf("it was sealed with the key %s and %s holds the key %s: "+
			"put the right key there; nothing has been changed", m.keyID, source.name(), s.keys.id)
	}
	if err := s.migrate(m, steps); err != nil {
		return err
	}
	if err := s.readOrigin(); err != nil {
		return err
	}
	return durable.Directory(filepath.Dir(s.path))
}

// Close waits for running transactions and lets other processes open the file.
func (s *Store) Close() error { return s.db.Close() }

// Path is the database file.
func (s *Store) Path() string { return s.path }

// Epoch names this life of the state: Unix seconds at which it began. It is the
// same over restarts; NewLife begins another.
func (s *Store) Epoch() int64 { return s.epoch.Load() }

// View runs fn on one consistent snapshot. Writes in it fail.
func (s *Store) View(fn func(*Tx) error) error {
	defer s.observed(false, time.Now())
	defer faultsPanic()()
	return s.db.View(func(tx *bbolt.Tx) error { return fn(&Tx{tx: tx}) })
}

// Update runs fn as one transaction, alone among writers. When it returns nil all
// that fn wrote is on disk; when fn returns an error or panics, none of it is. Where
// the disk does not take it, none of it is either, and the error is an *api.Problem
// that says what to do; but see Doubt.
func (s *Store) Update(fn func(*Tx) error) error {
	defer s.observed(true, time.Now())
	defer faultsPanic()()
	complete := false
	err := s.db.Update(func(tx *bbolt.Tx) error {
		select {
		case <-s.doubt:
			return api.NewProblem(api.ProblemUnavailable, "the controller stops, for its disk failed")
		default:
		}
		err := fn(&Tx{tx: tx})
		complete = err == nil
		return err
	})
	if err != nil && complete {
		return s.notWritten(err)
	}
	return err
}

func (s *Store) observed(write bool, began time.Time) {
	if s.observe != nil {
		s.observe(write, time.Since(began))
	}
}

// Tx is a transaction. It must not be used after the function that got it returns.
type Tx struct{ tx *bbolt.Tx }

// OnCommit runs fn once the transaction is on disk and other writers may go on;
// never, when it is rolled back.
func (t *Tx) OnCommit(fn func()) { t.tx.OnCommit(fn) }
