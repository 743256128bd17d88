package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// Shared is a database that several controllers share. One of them at a time is the leader,
// and only the leader opens it.
type Shared struct {
	// Term in which this controller is the leader. Open has it for itself; Close ends it.
	Term Term
	// History is what this controller has seen of the database.
	History *History
	// WasRestored opens a database whose history went back. The caller begins an epoch before
	// anything is answered.
	WasRestored bool
	// Name of the database for errors.
	Name string
}

// Term is the time in which no other controller changes the records: controller/store/etcd.Term.
// Its errors in that time are *api.Problem.
type Term interface {
	// Load calls fn with each record, and returns the head of the last commit, nil before the
	// first. It is called once, first.
	Load(ctx context.Context, fn func(key string, value []byte) error) (head []byte, err error)
	// Commit makes all changes durable, nil for a key that is deleted, or none. If its error
	// leaves open which, the term is over.
	Commit(head []byte, changes map[string][]byte) error
	// Check fails once another controller may have begun a term.
	Check() error
	// Over is closed when the term is over, and Why is the reason, nil before that.
	Over() <-chan struct{}
	Why() error
	// Limits are how many changes one commit may have, and how many bytes in keys, values
	// and Overhead of each.
	Limits() (changes, bytes int)
	Overhead() int
	// Position is the id of the database's cluster and its highest revision that is known.
	Position() (cluster string, revision int64)
	Close() error
}

// shared is the engine of one term: all records are in memory, and a commit goes to the
// database before anybody sees it.
type shared struct {
	term    Term
	signer  *signer
	history *History
	// committed are the records after the last commit.
	committed atomic.Pointer[records]
	closed    atomic.Bool
}

func (s *Store) openShared(o Options) (err error) {
	term := o.Shared.Term
	e := &shared{term: term, history: o.Shared.History}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening the store %s: %w", o.Shared.Name, err), term.Close())
		}
	}()
	all := iradix.New[[]byte]().Txn()
	head, err := term.Load(context.Background(), func(key string, value []byte) error {
		all.Insert([]byte(key), value)
		return nil
	})
	if err != nil {
		return err
	}
	loaded := &records{tree: all.Commit()}
	said, err := parseHead(head)
	if err != nil {
		return err
	}
	if head == nil && loaded.tree.Len() > 0 {
		return somethingElse(loaded.tree.Len())
	}
	if u := said.Unfinished; u != nil {
		return &UnfinishedError{*u}
	}
	cluster, revision := term.Position()
	if !o.Shared.WasRestored {
		if err := e.history.check(seen{Cluster: cluster, Revision: revision, head: said}); err != nil {
			return err
		}
	}
	if err := s.unlock(o.Key, head == nil, said.KeyID); err != nil {
		return err
	}
	e.signer = s.keys.signer()
	if head != nil {
		if err := e.signer.verify(loaded, said); err != nil {
			return err
		}
	}
	e.committed.Store(loaded)
	most := &limits{overhead: sharedOverhead(term)}
	most.changes, most.bytes = term.Limits()
	s.use(e, most)
	e.history.Seen(cluster, revision, head)
	return e.history.flush()
}

func somethingElse(keys int) error {
	return fmt.Errorf("it holds %d keys of something else: set another prefix; nothing has been changed", keys)
}

// sharedOverhead is what a record takes besides its bucket, its key and its value.
func sharedOverhead(t Term) int { return len("/") + macSize + t.Overhead() }

var errClosed = errors.New("the store is closed")

func (e *shared) check() error {
	if e.closed.Load() {
		return errClosed
	}
	return e.term.Check()
}

func (e *shared) view(fn func(snapshot) error) error {
	if err := e.check(); err != nil {
		return err
	}
	return fn(e.committed.Load())
}

func (e *shared) transact(run func(reader) writeSet) error {
	if err := errors.Join(e.check(), e.history.writable()); err != nil {
		return err
	}
	before := e.committed.Load()
	writes := run(before)
	if len(writes) == 0 {
		return nil
	}
	after, changes := e.signer.sign(before, writes)
	head := e.signer.head(after)
	if err := e.term.Commit(head, changes); err != nil {
		return err
	}
	e.committed.Store(after)
	cluster, revision := e.term.Position()
	e.history.Seen(cluster, revision, head)
	return nil
}

func (e *shared) over() <-chan struct{} { return e.term.Over() }

func (e *shared) why() error { return e.term.Why() }

func (e *shared) close() error {
	e.closed.Store(true)
	return errors.Join(e.term.Close(), e.history.flush())
}

// records are all records at one moment. They never change.
type records struct {
	// tree has each value with its MAC by <bucket>/<key>, and an empty one by <bucket>/ for
	// each bucket.
	tree *iradix.Tree[[]byte]
	// sum is that of the whole: see signer.
	sum sum
	// sequence counts the commits of the database.
	sequence int64
}

func pathOf(bucket, key string) []byte { return []byte(bucket + "/" + key) }

func splitPath(path string) (bucket, key string) {
	bucket, key, _ = strings.Cut(path, "/")
	return bucket, key
}

func (r *records) has(bucket string) bool {
	_, found := r.tree.Get(pathOf(bucket, ""))
	return found
}

func (r *records) get(bucket, key string) []byte {
	r.require(bucket)
	value, found := r.tree.Get(pathOf(bucket, key))
	if !found || key == "" {
		return nil
	}
	return textOfSigned(value)
}

func (r *records) scan(bucket, prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		r.require(bucket)
		all := r.tree.Root().Iterator()
		all.SeekPrefix(pathOf(bucket, prefix))
		for key, value, more := all.Next(); more; key, value, more = all.Next() {
			if name := string(key[len(bucket)+1:]); name != "" && !yield(name, textOfSigned(value)) {
				return
			}
		}
	}
}

// require panics if the bucket is missing: it was there when the store was opened.
func (r *records) require(bucket string) {
	if !r.has(bucket) {
		panic("the bucket is missing")
	}
}

func (r *records) size() (bytes int64) {
	all := r.tree.Root().Iterator()
	for key, value, more := all.Next(); more; key, value, more = all.Next() {
		bytes += int64(len(key) + len(value))
	}
	return bytes
}

func (r *records) buckets() (names []string) {
	all := r.tree.Root().Iterator()
	for key, _, more := all.Next(); more; key, _, more = all.Next() {
		if name, found := bytes.CutSuffix(key, []byte("/")); found && !bytes.Contains(name, []byte("/")) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}

// No file has them.
func (r *records) space() (used, free int64, err error) { return 0, 0, nil }
