package store

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A collection is an ordered map that outlives restarts.
func TestCollectionIsAnOrderedMap(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	model := map[string]File{}
	rapid.Check(t, func(r *rapid.T) {
		update(t, s, func(tx *Tx) error {
			var err error
			for _, k := range slices.Sorted(maps.Keys(model)) {
				err = errors.Join(err, tx.Files().Delete(k))
			}
			clear(model)
			return err
		})
		// Few and short keys, so that they meet and are each other's prefixes.
		key := rapid.StringMatching(`[ab/]{1,3}`)
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				k, f := key.Draw(r, "key"), File{Path: rapid.String().Draw(r, "path"), SizeBytes: rapid.Int64().Draw(r, "size")}
				update(t, s, func(tx *Tx) error { return tx.Files().Put(k, f) })
				model[k] = f
			},
			"delete": func(r *rapid.T) {
				k := key.Draw(r, "key")
				update(t, s, func(tx *Tx) error { return tx.Files().Delete(k) })
				delete(model, k)
			},
			"reopen": func(*rapid.T) {
				shut(t, s)
				s = p.open(t)
			},
			"": func(r *rapid.T) {
				prefix := rapid.StringMatching(`[ab/]{0,2}`).Draw(r, "prefix")
				err := s.View(func(tx *Tx) error {
					got, err := tx.Files().Prefix(prefix)
					want := []File{}
					for _, k := range slices.Sorted(maps.Keys(model)) {
						if strings.HasPrefix(k, prefix) {
							want = append(want, model[k])
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						r.Errorf("prefix %q: %s", prefix, diff)
					}
					k := key.Draw(r, "look for")
					one, found, getErr := tx.Files().Get(k)
					expected, exists := model[k]
					if !cmp.Equal(one, expected) || found != exists || getErr != nil {
						r.Errorf("%q: %+v, %v, %v; want %+v", k, one, found, getErr, expected)
					}
					return err
				})
				if err != nil {
					r.Fatal(err)
				}
			},
		})
	})
}

func TestKeysSortAsNumbers(t *testing.T) {
	if a, b := DesiredKey("i", 9), DesiredKey("i", 10); a >= b {
		t.Errorf("%q is not before %q", a, b)
	}
	if a, b := OperationKey("i", 99), OperationKey("i", 100); a >= b {
		t.Errorf("%q is not before %q", a, b)
	}
	for _, key := range []string{DesiredKey("i", 1), OperationKey("i", 1), FileKey("i", "a/b")} {
		if !strings.HasPrefix(key, InstancePrefix("i")) || strings.HasPrefix(key, InstancePrefix("i2")) {
			t.Errorf("%q is not found by the prefix of its instance", key)
		}
	}
}
