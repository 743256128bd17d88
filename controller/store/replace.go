package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// Unfinished says that a command replaces the records of a shared database. They need not fit
// into one commit. Until the last one, the head says so and every Open refuses the database.
type Unfinished struct {
	// By is the command and its arguments.
	By string `json:"by"`
	// Aside names what the command has kept of the state that it replaces, "" for nothing.
	Aside string `json:"aside,omitempty"`
}

// UnfinishedError says that such a command was cut off.
type UnfinishedError struct{ Unfinished }

// Error says what was found and what to do.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("`nodehitch-controller %s` was cut off, so the records are neither the old state nor the new one: run it again; nothing has been changed", e.By)
}

// Replacement replaces the records of a shared database by those of another store, in as many
// commits as they need. If it is cut off at any commit, the database has the old state, or
// the new one, or one that every Open refuses.
type Replacement struct {
	shared  Shared
	keys    *keys
	signer  *signer
	now     func() time.Time
	cluster string
	// present: there is a head.
	present bool
	head    head
	// there are the records that were loaded. strays are the keys of values that no
	// controller with the key has written; they are not in it.
	there  *records
	strays []string
	unread error
}

// OpenReplacement loads a shared database, whatever state it is in. It refuses a database with
// the records of another program. It has the term for itself; Close ends it.
func OpenReplacement(o Options) (r *Replacement, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening the store %s: %w", o.Shared.Name, err), o.Shared.Term.Close())
		}
	}()
	r = &Replacement{shared: *o.Shared, now: o.Now, there: &records{}}
	if r.now == nil {
		r.now = time.Now
	}
	if r.keys, err = o.Key.derive(false); err != nil {
		return nil, err
	}
	r.signer = r.keys.signer()
	all := iradix.New[[]byte]().Txn()
	text, err := r.shared.Term.Load(context.Background(), func(key string, value []byte) error {
		if r.signer.genuine([]byte(key), value) == nil {
			all.Insert([]byte(key), value)
			r.signer.toggle(&r.there.sum, value)
		} else {
			r.strays = append(r.strays, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.there.tree = all.Commit()
	r.cluster, _ = r.shared.Term.Position()
	if text == nil {
		if n := r.there.tree.Len() + len(r.strays); n > 0 {
			return nil, somethingElse(n)
		}
		return r, nil
	}
	r.present = true
	if r.head, err = parseHead(text); err != nil {
		return nil, err
	}
	r.there.sequence = r.head.Sequence
	switch {
	case r.head.KeyID != r.keys.id:
		r.unread = fmt.Errorf("it was sealed with the key %s and %s holds the key %s", r.head.KeyID, o.Key, r.keys.id)
	case len(r.strays) > 0:
		bucket, key, _ := strings.Cut(r.strays[0], "/")
		r.unread = &CorruptError{Bucket: bucket, Key: key, Err: errMAC}
	default:
		r.unread = r.signer.complete(r.there, r.head)
	}
	return r, nil
}

// Empty reports whether there is no state.
func (r *Replacement) Empty() bool { return !r.present }

// Unfinished is the command that was cut off, nil for none. One that the controllers have not
// signed is not believed.
func (r *Replacement) Unfinished() *Unfinished {
	if u := r.head.Unfinished; u != nil {
		if r.unread != nil {
			return &Unfinished{By: u.By}
		}
		return u
	}
	return nil
}

// Signed is an error if the records are not those that a controller with the key has left.
func (r *Replacement) Signed() error { return r.unread }

// Lost is a *HistoryError if this controller has seen more than there is, else nil.
func (r *Replacement) Lost() error {
	_, revision := r.shared.Term.Position()
	return r.shared.History.check(seen{Cluster: r.cluster, Revision: revision, head: r.head})
}

// Epoch is the latest one that this controller knows of the database. A new one must exceed it.
func (r *Replacement) Epoch() int64 {
	r.shared.History.mu.Lock()
	defer r.shared.History.mu.Unlock()
	return max(r.head.Epoch, r.shared.History.last.Epoch)
}

// Old is the state that is there, for reading until Fill or Close; nil if there is none. Its
// error says why the state cannot be read. It need not be closed.
func (r *Replacement) Old() (*Store, error) {
	if r.Empty() {
		return nil, nil // there is none, which is no error
	}
	if r.unread != nil {
		return nil, r.unread
	}
	e := &shared{term: r.shared.Term, history: r.shared.History}
	e.committed.Store(r.there)
	s := newStore(Options{Now: r.now})
	s.keys = r.keys
	s.use(readOnly{e}, nil)
	if err := s.engine.view(func(r snapshot) error { return s.adopt(r, true) }); err != nil {
		return nil, err
	}
	return s, nil
}

// readOnly is a shared database that is not changed.
type readOnly struct{ *shared }

func (readOnly) transact(func(reader) writeSet) error { return errReadOnly }
func (readOnly) close() error                         { return nil }

// Fill makes the records those of the other store. It refuses records that do not fit before it
// changes anything. Every commit but the last one says by its head that the replacement is
// unfinished. If beforeLast is set, it is called before the last commit, which then has only
// the head. After an error, Fill may have changed the records: the command must be run again.
func (r *Replacement) Fill(from *Store, by Unfinished, beforeLast func() error) error {
	return from.engine.view(func(src snapshot) error {
		s := r.steps(by)
		if err := r.changes(src, s.fits); err != nil {
			return err
		}
		if err := r.changes(src, s.add); err != nil {
			return err
		}
		if beforeLast != nil {
			if err := s.commit(&s.by); err != nil {
				return err
			}
			if err := beforeLast(); err != nil {
				return err
			}
		}
		return s.commit(nil)
	})
}

// changes calls fn with what has to be changed: a value, none for a key that is deleted. The
// key "" is the bucket itself. What the store says about itself comes first, so that each
// head has its epoch.
func (r *Replacement) changes(src snapshot, fn func(change) error) error {
	for _, bucket := range metaFirst(src.buckets()) {
		if err := r.changesOf(src, bucket, fn); err != nil {
			return err
		}
	}
	var gone []string
	all := r.there.tree.Root().Iterator()
	for path, _, more := all.Next(); more; path, _, more = all.Next() {
		bucket, key, _ := strings.Cut(string(path), "/")
		switch {
		case key == "" && !src.has(bucket):
			gone = append(gone, bucket) // after its keys
		case key != "" && (!src.has(bucket) || src.get(bucket, key) == nil || isMoved(bucket, key)):
			if err := fn(change{bucket: bucket, key: key, delete: true}); err != nil {
				return err
			}
		}
	}
	for _, bucket := range gone {
		if err := fn(change{bucket: bucket, delete: true}); err != nil {
			return err
		}
	}
	for _, path := range r.strays {
		if bucket, key, _ := strings.Cut(path, "/"); src.has(bucket) && (key == "" || src.get(bucket, key) != nil && !isMoved(bucket, key)) {
			continue // it is written over
		}
		if err := fn(change{bucket: path, stray: true}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replacement) changesOf(src snapshot, bucket string, fn func(change) error) (err error) {
	defer guard(bucket, "", &err)
	there := r.there.has(bucket)
	if !there {
		if err := fn(change{bucket: bucket}); err != nil {
			return err
		}
	}
	for key, value := range src.scan(bucket, "") {
		if isMoved(bucket, key) || there && bytes.Equal(r.there.get(bucket, key), value) {
			continue
		}
		if err := fn(change{bucket: bucket, key: key, value: value}); err != nil {
			return err
		}
	}
	return nil
}

// metaFirst puts the bucket of what the store says about itself first.
func metaFirst(buckets []string) []string {
	return append([]string{bucketMeta}, slices.DeleteFunc(buckets, func(b string) bool { return b == bucketMeta })...)
}

// isMoved: only the file that was left has it.
func isMoved(bucket, key string) bool { return bucket == bucketMeta && key == metaMoved }

// change is one of the database.
type change struct {
	bucket, key string
	value       []byte
	delete      bool
	// stray: bucket is the whole key of a value that nobody has signed.
	stray bool
}

// steps are the commits of a replacement.
type steps struct {
	r              *Replacement
	by             Unfinished
	changes, bytes int // that one commit takes
	// now is what the database has.
	now                  *records
	writes               writeSet
	strays               []string
	hasChanges, hasBytes int
}

func (r *Replacement) steps(by Unfinished) *steps {
	s := &steps{r: r, by: by, now: r.there, writes: writeSet{}}
	s.changes, s.bytes = r.shared.Term.Limits()
	return s
}

func (s *steps) size(c change) int {
	return len(c.bucket) + len(c.key) + len(c.value) + sharedOverhead(s.r.shared.Term)
}

func (s *steps) fits(c change) error {
	if size := s.size(c); size > s.bytes {
		return fmt.Errorf("the record %s/%s takes %d bytes, and etcd takes at most %d in a transaction: raise its --max-request-bytes; nothing was changed in etcd",
			c.bucket, c.key, size, s.bytes)
	}
	return nil
}

func (s *steps) add(c change) error {
	size := s.size(c)
	if s.hasChanges+1 > s.changes || s.hasBytes+size > s.bytes {
		if err := s.commit(&s.by); err != nil {
			return err
		}
	}
	s.hasChanges, s.hasBytes = s.hasChanges+1, s.hasBytes+size
	switch {
	case c.stray:
		s.strays = append(s.strays, c.bucket)
	case c.key == "" && !c.delete:
		s.writes.in(c.bucket)
	default:
		s.writes.in(c.bucket)[c.key] = c.value
	}
	return nil
}

// commit commits what was added. The head says that the replacement is unfinished, or nil.
func (s *steps) commit(by *Unfinished) error {
	after, changes := s.r.signer.sign(s.now, s.writes)
	for _, key := range s.strays {
		changes[key] = nil
	}
	text := s.r.signer.headSaying(after, by)
	if err := s.r.shared.Term.Commit(text, changes); err != nil {
		return fmt.Errorf("writing the records to %s: %w; run the command again", s.r.shared.Name, err)
	}
	s.now, s.writes, s.strays, s.hasChanges, s.hasBytes = after, writeSet{}, nil, 0, 0
	if by != nil {
		return nil
	}
	cluster, revision := s.r.shared.Term.Position()
	s.r.shared.History.Seen(cluster, revision, text)
	return s.r.shared.History.flush()
}

// Close ends the term.
func (r *Replacement) Close() error { return r.shared.Term.Close() }
