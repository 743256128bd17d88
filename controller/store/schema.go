package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Schema is the version of the records and of how they lie in the file. A store of an older
// version is brought to this one, step by step; one of a newer version is refused.
func Schema() int { return firstSchema + len(migrations) }

const firstSchema = 1

// migrations are the steps from each schema to the next, the first one from firstSchema.
// A step changes the records as they lie in the file. It leaves what Tx.Blobs reads as it
// is: the backup before the step lists the package files by that.
var migrations = []func(writer) error{
	func(w writer) error { w.create(bucketEvents); return nil },
	func(w writer) error { w.create(bucketAuthority); return nil },
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
	bucketEvents     = "events"
	bucketAuthority  = "authority"
)

var recordBuckets = []string{bucketInstances, bucketDesired, bucketNodes, bucketVolumes, bucketOperations, bucketFiles, bucketTokens, bucketEvents, bucketAuthority}

// The keys of the meta bucket.
const (
	metaSchema   = "schema"
	metaEpoch    = "epoch"
	metaKeyID    = "keyId"
	metaChecksum = "checksum"
	metaOrigin   = "origin"
	metaRollout  = "agentRollout"
	metaBackup   = "backup"
	metaMoved    = "moved"
)

// meta is what the store says about itself.
type meta struct {
	schema int
	epoch  int64
	keyID  string
	origin *Origin // nil if no backup was restored
}

// adopt makes what the records say about themselves what the store says. It refuses a schema
// that this controller does not read, and damage: of all records, or of what it reads itself.
func (s *Store) adopt(r reader, all bool) error {
	m, err := metaOf(r)
	if err == nil && all {
		err = verifyRecords(r, m.schema == Schema())
	}
	if err == nil {
		s.meta.Store(&m)
	}
	return err
}

func metaOf(r reader) (m meta, err error) {
	var schema, epoch []byte
	if r.has(bucketMeta) {
		schema, epoch = r.get(bucketMeta, metaSchema), r.get(bucketMeta, metaEpoch)
	}
	if len(schema) != 8 || len(epoch) != 8 {
		return m, errors.New("its meta bucket has no schema version or no epoch: restore a backup")
	}
	m.schema = int(binary.BigEndian.Uint64(schema))
	m.epoch = int64(binary.BigEndian.Uint64(epoch))
	m.keyID = string(r.get(bucketMeta, metaKeyID))
	// A newer schema may keep its checksum elsewhere, or none. One that is there counts.
	if sum := r.get(bucketMeta, metaChecksum); (sum != nil || m.schema <= Schema()) && !bytes.Equal(sum, m.checksum()) {
		return m, &CorruptError{Bucket: bucketMeta, Key: metaChecksum, Err: errSum}
	}
	if m.schema < firstSchema || m.schema > Schema() {
		return m, &SchemaError{Found: m.schema}
	}
	origin, found, err := getMeta[Origin](r, metaOrigin)
	if found {
		m.origin = &origin
	}
	return m, err
}

func (m meta) checksum() []byte {
	return sumOf(bucketMeta, metaChecksum, fmt.Appendf(nil, "%d %d %s", m.schema, m.epoch, m.keyID))
}

// SchemaError says that this controller does not read the store.
type SchemaError struct {
	// Found is the schema of the store.
	Found int
}

// Error says what was found, what was expected and what to do.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("its schema is version %d and this controller reads versions up to %d: run the controller that wrote it, "+
		"or restore a backup whose manifest says \"schema\": %d; nothing has been changed", e.Found, Schema(), Schema())
}

// migrate brings the store to this controller's schema, all of it or nothing.
func (s *Store) migrate() error {
	m := *s.meta.Load()
	err := s.updates.update(func(w writer) error {
		for _, step := range migrations[m.schema-firstSchema:] {
			if err := step(w); err != nil {
				return fmt.Errorf("from version %d: %w", m.schema, err)
			}
			m.schema++
		}
		return errors.Join(verifyRecords(w, true), m.put(w))
	})
	if err != nil {
		return fmt.Errorf("bringing its schema to version %d: %w", Schema(), err)
	}
	s.meta.Store(&m)
	return nil
}

// create makes a new file a store, all of it or nothing.
func (s *Store) create() error {
	m := meta{schema: Schema(), epoch: s.now().Unix(), keyID: s.keys.id}
	err := s.updates.update(func(w writer) error {
		w.create(bucketMeta)
		for _, name := range recordBuckets {
			w.create(name)
		}
		return m.put(w)
	})
	if err == nil {
		s.meta.Store(&m)
	}
	return err
}

func (m meta) put(w writer) error {
	return errors.Join(
		w.put(bucketMeta, metaSchema, binary.BigEndian.AppendUint64(nil, uint64(m.schema))),
		w.put(bucketMeta, metaEpoch, binary.BigEndian.AppendUint64(nil, uint64(m.epoch))),
		w.put(bucketMeta, metaKeyID, []byte(m.keyID)),
		w.put(bucketMeta, metaChecksum, m.checksum()))
}

// getMeta reads what lies in the meta bucket as records do in theirs. Its error is a
// *CorruptError.
func getMeta[T any](r reader, key string) (v T, found bool, err error) {
	defer guard(bucketMeta, key, &err)
	value := r.get(bucketMeta, key)
	if value == nil {
		return v, false, nil
	}
	text, err := textOf(bucketMeta, key, value)
	if err != nil {
		return v, false, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, false, &CorruptError{Bucket: bucketMeta, Key: key, Err: err}
	}
	return v, true, nil
}

func putMeta(w writer, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.put(bucketMeta, key, summed(bucketMeta, key, text))
}
