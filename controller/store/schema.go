package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A migration brings the records from one schema version to the next. It works on
// the raw values and must not use the record types, which go on changing.
type migration func(writer) error

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

func createBuckets(w writer) error {
	for _, name := range recordBuckets {
		w.create(name)
	}
	return nil
}

// The keys of the meta bucket.
const (
	metaSchema = "schema"
	metaEpoch  = "epoch"
	metaKeyID  = "key-id"
	metaSum    = "sum"
	metaOrigin = "origin"
)

// meta is what the store says about itself; the zero meta is a new file's.
type meta struct {
	schema int
	epoch  int64
	keyID  string
}

func (s *Store) readMeta() (m meta, err error) {
	err = s.engine.view(func(r reader) error {
		if !r.has(bucketMeta) {
			return nil // a new file
		}
		schema, epoch := r.get(bucketMeta, metaSchema), r.get(bucketMeta, metaEpoch)
		if len(schema) != 8 || len(epoch) != 8 {
			return fmt.Errorf("its meta bucket has no schema version or no epoch: restore a backup")
		}
		m.schema = int(binary.BigEndian.Uint64(schema))
		m.epoch = int64(binary.BigEndian.Uint64(epoch))
		m.keyID = string(r.get(bucketMeta, metaKeyID))
		// A version whose sum is there is not believed to be an older one without.
		if sum := r.get(bucketMeta, metaSum); (sum != nil || m.schema >= schemaOfSums) && !bytes.Equal(sum, m.sum()) {
			return &CorruptError{Bucket: bucketMeta, Key: metaSum, Err: errSum}
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
	return s.engine.update(func(w writer) error {
		w.create(bucketMeta)
		for version := m.schema; version < len(steps); version++ {
			if err := steps[version](w); err != nil {
				return fmt.Errorf("migrating from schema version %d to %d (nothing has been changed): %w", version, version+1, err)
			}
		}
		if m.epoch == 0 {
			m.epoch = s.now().Unix()
			s.epoch.Store(m.epoch)
		}
		m.schema, m.keyID = len(steps), s.keys.id
		return m.put(w)
	})
}

func (m meta) put(w writer) error {
	return errors.Join(
		w.put(bucketMeta, metaSchema, binary.BigEndian.AppendUint64(nil, uint64(m.schema))),
		w.put(bucketMeta, metaEpoch, binary.BigEndian.AppendUint64(nil, uint64(m.epoch))),
		w.put(bucketMeta, metaKeyID, []byte(m.keyID)),
		w.put(bucketMeta, metaSum, m.sum()))
}
