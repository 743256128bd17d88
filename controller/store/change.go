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
func (c Collection[T]) note(key string) {
	if _, known := c.tx.before[c.name][key]; known {
		return
	}
	n := valueBefore{value: c.tx.reader.get(c.name, key)}
	if record, found := c.decoded.peek(key, n.value); found {
		n.record = record
	}
	c.tx.noted(c.name, key, n)
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
func (c Collection[T]) ChangedKeys() (keys []string, err error) {
	defer guard(c.name, "", &err)
	for key, before := range c.tx.before[c.name] {
		if !bytes.Equal(before.value, c.tx.reader.get(c.name, key)) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Changes are the records that the transaction has changed so far, in no order. They must not
// be changed.
func (c Collection[T]) Changes() (changes []Change[T], err error) {
	for key, before := range c.tx.before[c.name] {
		change, changed, err := c.change(key, before)
		if err != nil {
			return nil, err
		}
		if changed {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func (c Collection[T]) change(key string, before valueBefore) (change Change[T], changed bool, err error) {
	defer guard(c.name, key, &err)
	now := c.tx.reader.get(c.name, key)
	if bytes.Equal(before.value, now) {
		return change, false, nil
	}
	change.Key = key
	if record, decoded := before.record.(*T); decoded {
		change.Before = record
	} else if change.Before, err = c.record(key, before.value); err != nil {
		return change, false, err
	}
	change.After, err = c.record(key, now)
	return change, true, err
}

// record is the one that the value stands for, nil for none.
func (c Collection[T]) record(key string, value []byte) (*T, error) {
	if value == nil {
		return nil, nil
	}
	if record, found := c.decoded.peek(key, value); found {
		return record, nil
	}
	record := new(T)
	return record, c.decode(key, value, record)
}
