package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// A migration brings the records from one schema version to the next. It works on
// the raw transaction and must not use the record types, which go on changing.
type migration func(*bbolt.Tx) error

// migrations in order: the i-th makes version i+1 out of version i, and version 0
// is an empty file. Append; never change one that was released.
// From schemaOfSums on values carry a checksum; see rewrite.
var migrations = []migration{
	createBuckets,
	addChecksums,
	addEpochs,
}

// schemaOfSums is the first version in which each value has its checksum, and the
// meta bucket one over all of it.
const schemaOfSums = 2

// The buckets of the records. Their names are on disk.
const (
	bucketMeta       = "meta"
	bucketInstances  = "instances"
	bucketDesired    = "desired"
	bucketNodes      = "nodes"
	bucketVolumes    = "volumes"
	bucketOperations = "operations"
	bucketFiles      = "files"
	bucketTokens     = "tokens"
)

// recordBuckets are those of version 1; a bucket that comes later is made by a
// migration of its own.
var recordBuckets = []string{bucketInstances, bucketDesired, bucketNodes, bucketVolumes, bucketOperations, bucketFiles, bucketTokens}

func createBuckets(tx *bbolt.Tx) error {
	for _, name := range recordBuckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// The keys of the meta bucket.
var (
	metaSchema = []byte("schema")
	metaEpoch  = []byte("epoch")
	metaKeyID  = []byte("key-id")
	metaSum    = []byte("sum")
	metaOrigin = []byte("origin")
)

// meta is what the store says about itself; the zero meta is a new file's.
type meta struct {
	schema int
	epoch  int64
	keyID  string
}

func (s *Store) readMeta() (m meta, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucketMeta))
		if b == nil {
			// A file of somebody else's program is intact bbolt too.
			if name, _ := tx.Cursor().First(); name != nil {
				return fmt.Errorf("it is not a nodehitch store: it has a bucket %q and no %q", name, bucketMeta)
			}
			return nil
		}
		schema, epoch := b.Get(metaSchema), b.Get(metaEpoch)
		if len(schema) != 8 || len(epoch) != 8 {
			return fmt.Errorf("its meta bucket has no schema version or no epoch: restore a backup")
		}
		m.schema = int(binary.BigEndian.Uint64(schema))
		m.epoch = int64(binary.BigEndian.Uint64(epoch))
		m.keyID = string(b.Get(metaKeyID))
		// A version whose sum is there is not believed to be an older one without.
		if sum := b.Get(metaSum); (sum != nil || m.schema >= schemaOfSums) && !bytes.Equal(sum, m.sum()) {
			return &CorruptError{Bucket: bucketMeta, Key: string(metaSum), Err: errSum}
		}
		return nil
	})
	return m, err
}

func (m meta) sum() []byte {
	return sumOf(bucketMeta, metaSum, fmt.Appendf(nil, "%d %d %s", m.schema, m.epoch, m.keyID))
}

// migrate writes only when there is something to write, all of it or nothing.
func (s *Store) migrate(m meta, steps []migration) error {
	s.epoch.Store(m.epoch)
	if m.schema == len(steps) {
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucketMeta))
		if err != nil {
			return err
		}
		for version := m.schema; version < len(steps); version++ {
			if err := steps[version](tx); err != nil {
				return fmt.Errorf("migrating from schema version %d to %d (nothing has been changed): %w", version, version+1, err)
			}
		}
		if m.epoch == 0 {
			m.epoch = s.now().Unix()
			s.epoch.Store(m.epoch)
		}
		m.schema, m.keyID = len(steps), s.keys.id
		return m.put(b)
	})
}

func (m meta) put(b *bbolt.Bucket) error {
	return errors.Join(
		b.Put(metaSchema, binary.BigEndian.AppendUint64(nil, uint64(m.schema))),
		b.Put(metaEpoch, binary.BigEndian.AppendUint64(nil, uint64(m.epoch))),
		b.Put(metaKeyID, []byte(m.keyID)),
		b.Put(metaSum, m.sum()))
}
