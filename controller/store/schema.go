package store

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// A migration brings the records from one schema version to the next. It works on
// the raw transaction and must not use the record types, which go on changing.
type migration func(*bbolt.Tx) error

// migrations in order: the i-th makes version i+1 out of version i, and version 0
// is an empty file. Append; never change one that was released.
var migrations = []migration{
	createBuckets,
}

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

func createBuckets(tx *bbolt.Tx) error {
	for _, name := range []string{bucketInstances, bucketDesired, bucketNodes, bucketVolumes, bucketOperations, bucketFiles, bucketTokens} {
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
		return nil
	})
	return m, err
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
		return putMeta(b, len(steps), m.epoch, s.keys.id)
	})
}

func putMeta(b *bbolt.Bucket, schema int, epoch int64, keyID string) error {
	if err := b.Put(metaSchema, binary.BigEndian.AppendUint64(nil, uint64(schema))); err != nil {
		return err
	}
	if err := b.Put(metaEpoch, binary.BigEndian.AppendUint64(nil, uint64(epoch))); err != nil {
		return err
	}
	return b.Put(metaKeyID, []byte(keyID))
}

// NewEpoch begins another life of the state and returns its name. A restore does
// so once, on the restored file, before any agent is answered: what nodes reported
// and were permitted in an earlier life is then confirmed anew. It is never a name
// that an earlier life had, unless the clock went back.
func (s *Store) NewEpoch() (int64, error) {
	epoch := max(s.now().Unix(), s.Epoch()+1)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put(metaEpoch, binary.BigEndian.AppendUint64(nil, uint64(epoch)))
	})
	if err != nil {
		return 0, fmt.Errorf("beginning a new epoch: %w", err)
	}
	s.epoch.Store(epoch)
	return epoch, nil
}
