package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Collection is the records of one kind, in the order of their keys. Keys and
// records are copies: changing one changes nothing in the store.
type Collection[T any] struct {
	name string
	tx   *Tx
	// decoded is nil for records that are decoded each time.
	decoded *decoded[T]
}

var errReadOnly = errors.New("the transaction is a View, which cannot write")

// Get returns the record, false when there is none. Its error is a *CorruptError.
func (c Collection[T]) Get(key string) (record T, found bool, err error) {
	defer guard(c.name, key, &err)
	value := c.tx.reader.get(c.name, key)
	if value == nil {
		return record, false, nil
	}
	if record, found = c.decoded.get(key, value); found {
		return record, true, nil
	}
	if err := c.decode(key, value, &record); err != nil {
		var zero T
		return zero, false, err
	}
	c.decoded.add(key, value, record)
	return record, true, nil
}

// Put writes the record, over one with the same key.
func (c Collection[T]) Put(key string, record T) (err error) {
	defer guard(c.name, key, &err)
	text, err := json.Marshal(record)
	switch {
	case err != nil:
	case c.tx.writer == nil:
		err = errReadOnly
	default:
		value := summed(c.name, key, text)
		c.note(key)
		if err = c.tx.writer.put(c.name, key, value); err == nil {
			c.decoded.add(key, value, record)
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s/%s: %w", c.name, key, err)
	}
	return nil
}

// Delete removes the record; none is no error.
func (c Collection[T]) Delete(key string) (err error) {
	defer guard(c.name, key, &err)
	if c.tx.writer == nil {
		return fmt.Errorf("deleting %s/%s: %w", c.name, key, errReadOnly)
	}
	c.note(key)
	c.tx.writer.delete(c.name, key)
	return nil
}

// All returns every record.
func (c Collection[T]) All() ([]T, error) { return c.Prefix("") }

// Prefix returns the records whose key starts so; never nil.
func (c Collection[T]) Prefix(prefix string) ([]T, error) {
	records := []T{}
	if err := c.each(prefix, func(record T) { records = append(records, record) }); err != nil {
		return nil, err
	}
	return records, nil
}

// Each calls fn with every record. Use it instead of All where a list of them is not needed:
// thousands of records are tens of megabytes. fn must not panic.
func (c Collection[T]) Each(fn func(record T)) error { return c.each("", fn) }

func (c Collection[T]) each(prefix string, fn func(record T)) (err error) {
	defer guard(c.name, prefix, &err)
	for key, value := range c.tx.reader.scan(c.name, prefix) {
		record, found := c.decoded.get(key, value)
		if !found {
			if err := c.decode(key, value, &record); err != nil {
				return err
			}
		}
		fn(record)
	}
	return nil
}

func (c Collection[T]) decode(key string, value []byte, record *T) error {
	text, err := textOf(c.name, key, value)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, record); err != nil {
		return &CorruptError{Bucket: c.name, Key: key, Err: err}
	}
	return nil
}

// Keys returns the keys that start so, in order. It decodes no record.
func (c Collection[T]) Keys(prefix string) (keys []string, err error) {
	defer guard(c.name, prefix, &err)
	for key := range c.tx.reader.scan(c.name, prefix) {
		keys = append(keys, key)
	}
	return keys, nil
}

// Size is a key, and how many bytes its value has.
type Size struct {
	Key   string
	Bytes int
}

// Sizes returns the keys that start so, in order, with the sizes of their values. It decodes
// no record.
func (c Collection[T]) Sizes(prefix string) (sizes []Size, err error) {
	defer guard(c.name, prefix, &err)
	for key, value := range c.tx.reader.scan(c.name, prefix) {
		sizes = append(sizes, Size{key, len(value)})
	}
	return sizes, nil
}

// Len is how many records there are. It decodes none.
func (c Collection[T]) Len() (n int, err error) {
	defer guard(c.name, "", &err)
	for range c.tx.reader.scan(c.name, "") {
		n++
	}
	return n, nil
}

// CorruptError says which record is not what this controller would write.
type CorruptError struct {
	Bucket, Key string
	Err         error
}

// Error names the record and what to do.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the record %s/%s of the store is damaged (%v): restore a backup", e.Bucket, e.Key, e.Err)
}

// Unwrap is the decoder's error.
func (e *CorruptError) Unwrap() error { return e.Err }

// Instances by instance id.
func (t *Tx) Instances() Collection[Instance] {
	return Collection[Instance]{name: bucketInstances, tx: t, decoded: t.recent.instances}
}

// Desired states by DesiredKey.
func (t *Tx) Desired() Collection[Desired] { return of[Desired](t, bucketDesired) }

// Nodes by node id (Nova server id).
func (t *Tx) Nodes() Collection[Node] {
	return Collection[Node]{name: bucketNodes, tx: t, decoded: t.recent.nodes}
}

// Volumes by Cinder volume id.
func (t *Tx) Volumes() Collection[Volume] { return of[Volume](t, bucketVolumes) }

// Owner is of a node or a volume only which instance has it.
type Owner struct {
	InstanceID string `json:"instanceId"`
}

// NodeOwners are Nodes with nothing else decoded.
func (t *Tx) NodeOwners() Collection[Owner] { return of[Owner](t, bucketNodes) }

// VolumeOwners are Volumes with nothing else decoded.
func (t *Tx) VolumeOwners() Collection[Owner] { return of[Owner](t, bucketVolumes) }

// Operations by OperationKey.
func (t *Tx) Operations() Collection[Operation] {
	return Collection[Operation]{name: bucketOperations, tx: t, decoded: t.recent.operations}
}

// OperationStates are what is counted of Operations, with nothing else decoded.
func (t *Tx) OperationStates() Collection[OperationState] {
	return of[OperationState](t, bucketOperations)
}

// Files by FileKey.
func (t *Tx) Files() Collection[File] { return of[File](t, bucketFiles) }

// Tokens of the northbound API by token id.
func (t *Tx) Tokens() Collection[Token] { return of[Token](t, bucketTokens) }

// Authority is the root and the intermediates of the certificate authority, by the names that
// their files have. It is empty if the store is not shared: they are files then.
func (t *Tx) Authority() Collection[AuthorityPair] {
	return of[AuthorityPair](t, bucketAuthority)
}

func of[T any](t *Tx, bucket string) Collection[T] {
	return Collection[T]{name: bucket, tx: t}
}

// InstancePrefix starts the keys of all that belongs to an instance in Desired,
// Operations, Files and Events.
func InstancePrefix(instanceID string) string { return instanceID + "/" }

// InstanceOf is the instance of a key that starts with InstancePrefix.
func InstanceOf(key string) string {
	id, _, _ := strings.Cut(key, "/")
	return id
}

// DesiredKey orders the desired states of an instance by version.
func DesiredKey(instanceID string, version int64) string {
	return fmt.Sprintf("%s%016d", InstancePrefix(instanceID), version)
}

// OperationKey orders the operations of an instance by sequence.
func OperationKey(instanceID string, sequence int64) string {
	return fmt.Sprintf("%s%016d", InstancePrefix(instanceID), sequence)
}

// ParseOperationKey is the instance and the sequence of a key.
func ParseOperationKey(key string) (instanceID string, sequence int64, err error) {
	instanceID, number, _ := strings.Cut(key, "/")
	if sequence, err = strconv.ParseInt(number, 10, 64); err != nil {
		err = &CorruptError{Bucket: bucketOperations, Key: key, Err: err}
	}
	return instanceID, sequence, err
}

// FileKey is the key of a package file of an instance.
func FileKey(instanceID, path string) string { return InstancePrefix(instanceID) + path }
