package store

import "bytes"

// Change is a record that a transaction has changed: as it was before, nil for a new one, and
// as it is now, nil for one that was deleted.
type Change[T any] struct {
	Key           string
	Before, After *T
}

// valueBefore is a value before the transaction, nil for none, and its record if it was decoded.
type valueBefore struct {
	value  []byte
	record any
}

// note keeps what a key has before it is first written.
func (u untyped) note(key string) {
	if _, known := u.tx.before[u.name][key]; known {
		return
	}
	value := u.tx.reader.get(u.name, key)
	u.tx.noted(u.name, key, valueBefore{value, u.decoded.get(key, value)})
}

func (t *Tx) noted(bucket, key string, n valueBefore) {
	if t.before == nil {
		t.before = map[string]map[string]valueBefore{}
	}
	if t.before[bucket] == nil {
		t.before[bucket] = map[string]valueBefore{}
	}
	t.before[bucket][key] = n
}

// ChangedKeys are the keys of Changes. It decodes no record.
func (u untyped) ChangedKeys() (keys []string, err error) {
	defer guard(u.name, "", &err)
	for key, before := range u.tx.before[u.name] {
		if !bytes.Equal(before.value, u.tx.reader.get(u.name, key)) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Changes are the records that the transaction has changed so far, in no order. They must not
// be changed.
func (c Collection[T]) Changes() (changes []Change[T], err error) {
	for key, before := range c.tx.before[c.name] {
		change, err := c.change(key, before)
		if err != nil {
			return nil, err
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	return changes, nil
}

// change is nil if the record is as it was.
func (c Collection[T]) change(key string, before valueBefore) (*Change[T], error) {
	was, is, err := c.compare(key, before, func() any { return new(T) })
	if err != nil || was == nil && is == nil {
		return nil, err
	}
	change := Change[T]{Key: key}
	change.Before, _ = was.(*T)
	change.After, _ = is.(*T)
	return &change, nil
}

// compare returns the record before and now, or nothing if they are the same.
func (u untyped) compare(key string, before valueBefore, empty func() any) (was, is any, err error) {
	defer guard(u.name, key, &err)
	now := u.tx.reader.get(u.name, key)
	if bytes.Equal(before.value, now) {
		return nil, nil, nil
	}
	if was = before.record; was == nil {
		if was, err = u.record(key, before.value, empty); err != nil {
			return nil, nil, err
		}
	}
	is, err = u.record(key, now, empty)
	return was, is, err
}

// record is the one that the value stands for, nil for none.
func (u untyped) record(key string, value []byte, empty func() any) (any, error) {
	if value == nil {
		return nil, nil
	}
	if record := u.decoded.get(key, value); record != nil {
		return record, nil
	}
	record := empty()
	return record, u.decode(key, value, record)
}
