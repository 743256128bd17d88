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
	untyped
	// copied is for records that are kept decoded, which others read too.
	copied func(T) T
}

// untyped is what collections of all kinds do in the same way. A record is a pointer here.
// It is apart because each package that uses the store compiles what has a type parameter,
// once for each kind.
type untyped struct {
	name string
	tx   *Tx
	// decoded is nil for records that are decoded each time.
	decoded *decoded
}

var errReadOnly = errors.New("the transaction is a View, which cannot write")

// Get returns the record, false when there is none. Its error is a *CorruptError.
func (c Collection[T]) Get(key string) (record T, found bool, err error) {
	read, err := c.get(key, new(T))
	if err != nil || read == nil {
		return record, false, err
	}
	return c.own(read.(*T)), true, nil
}

// own is a copy that shares nothing with a record that is kept decoded.
func (c Collection[T]) own(record *T) T {
	if c.copied == nil {
		return *record
	}
	return c.copied(*record)
}

// get returns the record, which others may read too: a decoded one, or the empty one that is
// given, decoded. It is nil when there is none.
func (u untyped) get(key string, empty any) (record any, err error) {
	defer guard(u.name, key, &err)
	value := u.tx.reader.get(u.name, key)
	if value == nil {
		return nil, nil
	}
	if record := u.decoded.get(key, value); record != nil {
		return record, nil
	}
	if err := u.decode(key, value, empty); err != nil {
		return nil, err
	}
	u.decoded.add(key, value, empty)
	return empty, nil
}

// Put writes the record, over one with the same key.
func (c Collection[T]) Put(key string, record T) error {
	own := c.own(&record)
	return c.put(key, record, &own)
}

// put writes the record; kept is a copy of it that nobody changes.
func (u untyped) put(key string, record, kept any) (err error) {
	defer guard(u.name, key, &err)
	text, err := json.Marshal(record)
	switch {
	case err != nil:
	case u.tx.writer == nil:
		err = errReadOnly
	default:
		value := summed(u.name, key, text)
		u.note(key)
		if err = u.tx.writer.put(u.name, key, value); err == nil {
			u.decoded.add(key, value, kept)
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s/%s: %w", u.name, key, err)
	}
	return nil
}

// Delete removes the record; none is no error.
func (u untyped) Delete(key string) (err error) {
	defer guard(u.name, key, &err)
	if u.tx.writer == nil {
		return fmt.Errorf("deleting %s/%s: %w", u.name, key, errReadOnly)
	}
	u.note(key)
	u.tx.writer.delete(u.name, key)
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

func (c Collection[T]) each(prefix string, fn func(record T)) error {
	empty := func() any { return new(T) }
	return c.visit(prefix, empty, func(record any, shared bool) {
		if shared {
			fn(c.own(record.(*T)))
		} else {
			fn(*record.(*T))
		}
	})
}

// visit calls fn with every record, and whether others may read it too.
func (u untyped) visit(prefix string, empty func() any, fn func(record any, shared bool)) (err error) {
	defer guard(u.name, prefix, &err)
	for key, value := range u.tx.reader.scan(u.name, prefix) {
		if record := u.decoded.get(key, value); record != nil {
			fn(record, true)
			continue
		}
		record := empty()
		if err := u.decode(key, value, record); err != nil {
			return err
		}
		fn(record, false)
	}
	return nil
}

func (u untyped) decode(key string, value []byte, record any) error {
	text, err := textOf(u.name, key, value)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, record); err != nil {
		return &CorruptError{Bucket: u.name, Key: key, Err: err}
	}
	return nil
}

// Keys returns the keys that start so, in order. It decodes no record.
func (u untyped) Keys(prefix string) (keys []string, err error) {
	defer guard(u.name, prefix, &err)
	for key := range u.tx.reader.scan(u.name, prefix) {
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
func (u untyped) Sizes(prefix string) (sizes []Size, err error) {
	defer guard(u.name, prefix, &err)
	for key, value := range u.tx.reader.scan(u.name, prefix) {
		sizes = append(sizes, Size{key, len(value)})
	}
	return sizes, nil
}

// Len is how many records there are. It decodes none.
func (u untyped) Len() (n int, err error) {
	defer guard(u.name, "", &err)
	for range u.tx.reader.scan(u.name, "") {
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
	return Collection[Instance]{untyped{bucketInstances, t, t.recent.instances}, Instance.copied}
}

// InstanceNames are the names of all instances that have one, by id.
func (t *Tx) InstanceNames() (map[string]string, error) {
	names := map[string]string{}
	err := t.Instances().Each(func(i Instance) {
		if i.Name != "" {
			names[i.ID] = i.Name
		}
	})
	return names, err
}

// Desired states by DesiredKey.
func (t *Tx) Desired() Collection[Desired] { return of[Desired](t, bucketDesired) }

// Nodes by node id (Nova server id).
func (t *Tx) Nodes() Collection[Node] {
	return Collection[Node]{untyped{bucketNodes, t, t.recent.nodes}, Node.copied}
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
	return Collection[Operation]{untyped{bucketOperations, t, t.recent.operations}, Operation.copied}
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
	return Collection[T]{untyped: untyped{name: bucket, tx: t}}
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
