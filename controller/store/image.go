package store

import (
	"bytes"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
)

// writeSet is what a transaction changes: values by bucket and key, nil for a key that
// is deleted. A bucket without changes is one that was created.
type writeSet map[string]map[string][]byte

func (w writeSet) in(bucket string) map[string][]byte {
	if w[bucket] == nil {
		w[bucket] = map[string][]byte{}
	}
	return w[bucket]
}

// add puts later changes over these.
func (w writeSet) add(later writeSet) {
	for bucket, changes := range later {
		maps.Copy(w.in(bucket), changes)
	}
}

// image is a writer whose changes lie in memory, over what is under it.
type image struct {
	under  reader
	writes writeSet
}

func newImage(under reader) *image { return &image{under: under, writes: writeSet{}} }

func (i *image) has(bucket string) bool {
	_, created := i.writes[bucket]
	return created || i.under.has(bucket)
}

func (i *image) get(bucket, key string) []byte {
	if value, changed := i.writes[bucket][key]; changed {
		return value
	}
	if i.onlyHere(bucket) {
		return nil
	}
	return i.under.get(bucket, key)
}

// onlyHere reports whether the bucket was created by this image. Any other bucket that is
// missing is damage, and reading it has to say so.
func (i *image) onlyHere(bucket string) bool {
	_, here := i.writes[bucket]
	return here && !i.under.has(bucket)
}

func (i *image) scan(bucket, prefix string) iter.Seq2[string, []byte] {
	changes := i.writes[bucket]
	var changed []string
	for key := range changes {
		if strings.HasPrefix(key, prefix) {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return func(yield func(string, []byte) bool) {
		left := changed
		// before yields the changed keys up to the one given, and reports whether that
		// was among them.
		before := func(key string) (replaced, goOn bool) {
			for len(left) > 0 && left[0] <= key {
				next := left[0]
				left = left[1:]
				if value := changes[next]; value != nil && !yield(next, value) {
					return false, false
				}
				replaced = next == key
			}
			return replaced, true
		}
		if !i.onlyHere(bucket) {
			for key, value := range i.under.scan(bucket, prefix) {
				replaced, goOn := before(key)
				if !goOn || !replaced && !yield(key, value) {
					return
				}
			}
		}
		for _, key := range left {
			if value := changes[key]; value != nil && !yield(key, value) {
				return
			}
		}
	}
}

func (i *image) create(bucket string) {
	if !i.has(bucket) {
		i.writes.in(bucket)
	}
}

// maxKey is bbolt's.
const maxKey = 32768

// put reads what is there. So a value that is there already is no change; and a
// page on the way to it that cannot be read fails this transaction, and not the commit
// of all.
func (i *image) put(bucket, key string, value []byte) error {
	if key == "" || len(key) > maxKey {
		return errors.New("the key is empty or too long")
	}
	if old := i.get(bucket, key); old == nil || !bytes.Equal(old, value) {
		i.writes.in(bucket)[key] = value
	}
	return nil
}

func (i *image) delete(bucket, key string) {
	if i.get(bucket, key) != nil {
		i.writes.in(bucket)[key] = nil
	}
}
