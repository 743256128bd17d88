package store

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// A read transaction keeps bbolt from growing its memory map, so a slow backup
// would stop every write of a store that outgrows the map. Address space costs
// nothing: reserve more than the state of thousands of instances needs.
const mapReserve = 1 << 30

// bolt is the engine of one controller alone: a bbolt file.
type bolt struct {
	ending // once the outcome of a commit is unknown
	db     *bbolt.DB
}

// openBolt opens the file and creates it when it does not exist; its name then lasts, too.
func openBolt(path string, lockTimeout time.Duration) (*bolt, error) {
	if err := preparePath(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockTimeout,
		InitialMmapSize: mapReserve,
		FreelistType:    bbolt.FreelistMapType,
		OpenFile:        openIntact(lockTimeout),
	})
	if err != nil {
		return nil, explainOpen(path, err)
	}
	if err := errors.Join(refuseForeign(db), durable.Directory(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", path, err), db.Close())
	}
	return &bolt{newEnding(), db}, nil
}

// refuseForeign refuses the file of another program, which is intact bbolt too.
func refuseForeign(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		if name, _ := tx.Cursor().First(); name != nil && tx.Bucket([]byte(bucketMeta)) == nil {
			return fmt.Errorf("it is not a nodehitch store: it has a bucket %q and no %q", name, bucketMeta)
		}
		return nil
	})
}

func (b *bolt) close() error { return b.db.Close() }

func (b *bolt) view(fn func(snapshot) error) error {
	return b.db.View(func(tx *bbolt.Tx) error { return fn(boltSnapshot{tx}) })
}

// A panic in bbolt becomes the error of transact: it would end the process, because the
// group's goroutine runs no client's request.
func (b *bolt) transact(run func(reader) writeSet) (err error) {
	defer faultsPanic()()
	defer func() {
		if p := recover(); p != nil {
			err = &DamagedError{Path: b.db.Path(), Err: fmt.Errorf("%w: %v", errPages, p)}
		}
	}()
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of one that was committed it does nothing
	if b.why() != nil {
		return api.NewProblem(api.ProblemUnavailable, "the controller stops because its disk failed")
	}
	writes := run(boltSnapshot{tx})
	if len(writes) == 0 {
		return nil
	}
	if err := apply(tx, writes); err != nil {
		return err
	}
	if err := commit(tx); err != nil {
		return b.notWritten(err)
	}
	return nil
}

// apply writes in the order of the keys, in which bbolt is fastest.
func apply(tx *bbolt.Tx, writes writeSet) error {
	for _, name := range slices.Sorted(maps.Keys(writes)) {
		bucket, err := tx.CreateBucketIfNotExists([]byte(name))
		if err != nil {
			return fmt.Errorf("creating the bucket %q: %w", name, err)
		}
		for _, key := range slices.Sorted(maps.Keys(writes[name])) {
			if err := write(bucket, name, key, writes[name][key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(bucket *bbolt.Bucket, name, key string, value []byte) (err error) {
	defer guard(name, key, &err)
	if value == nil {
		err = bucket.Delete([]byte(key))
	} else {
		err = bucket.Put([]byte(key), value)
	}
	if err != nil {
		return fmt.Errorf("writing %s/%s: %w", name, key, err)
	}
	return nil
}

// errPages means that bbolt met a page that it cannot read.
var errPages = errors.New("a page cannot be read")

// commit cannot tell how far bbolt had come when it met such a page.
func commit(tx *bbolt.Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPages, p)
		}
	}()
	return tx.Commit()
}

// boltSnapshot reads a transaction of bbolt.
type boltSnapshot struct{ tx *bbolt.Tx }

func (s boltSnapshot) has(bucket string) bool { return s.tx.Bucket([]byte(bucket)) != nil }

func (s boltSnapshot) get(bucket, key string) []byte { return s.bucket(bucket).Get([]byte(key)) }

func (s boltSnapshot) scan(bucket, prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		cursor := s.bucket(bucket).Cursor()
		for k, value := cursor.Seek([]byte(prefix)); k != nil; k, value = cursor.Next() {
			if key := string(k); !strings.HasPrefix(key, prefix) || !yield(key, value) {
				return
			}
		}
	}
}

// bucket panics if the bucket is missing: it was there when the store was opened.
func (s boltSnapshot) bucket(name string) *bbolt.Bucket {
	bucket := s.tx.Bucket([]byte(name))
	if bucket == nil {
		panic("the bucket is missing")
	}
	return bucket
}

func (s boltSnapshot) buckets() (names []string) {
	cursor := s.tx.Cursor()
	for name, _ := cursor.First(); name != nil; name, _ = cursor.Next() {
		names = append(names, string(name))
	}
	return names
}

func (s boltSnapshot) size() int64 { return s.tx.Size() }

// What bbolt knows of free pages is as of its last write.
func (s boltSnapshot) space() (used, free int64, err error) {
	info, err := os.Stat(s.tx.DB().Path())
	if err != nil {
		return 0, 0, err
	}
	used = s.tx.Size() - int64(s.tx.DB().Stats().FreeAlloc)
	return used, info.Size() - used, nil
}
