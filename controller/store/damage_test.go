package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// everything is what a store holds, raw.
func everything(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := raw(s).View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				all[string(bucket)+"/"+string(key)] = string(value)
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// used is a store in which each kind of page is in use: a branch, leaves, one that
// overflows, buckets that lie in the root, a list of free pages.
func used(t *testing.T) (place, map[string]string) {
	t.Helper()
	p := newPlace(t)
	s := p.open(t)
	for i := range 60 {
		update(t, s, func(tx *Tx) error {
			id := fmt.Sprintf("n%02d", i)
			return tx.Nodes().Put(id, Node{ID: id, Name: strings.Repeat("x", 50*(i%9))})
		})
	}
	update(t, s, func(tx *Tx) error {
		return errors.Join(tx.Tokens().Put("t1", Token{MAC: []byte("mac")}),
			tx.Desired().Put(DesiredKey("i1", 1), Desired{AdditionalParams: bytes.Repeat([]byte{7}, 9000)}))
	})
	all := everything(t, s)
	shut(t, s)
	// The room that bbolt has made for later is not needed here.
	if err := os.Truncate(p.file(), int64(end(read(t, p.file())))); err != nil {
		t.Fatal(err)
	}
	return p, all
}

// end is where the last page ends.
func end(file []byte) int {
	return 4096 * int(max(native.Uint64(file[pageHeader+40:]), native.Uint64(file[4096+pageHeader+40:])))
}

// refusesOrKeeps damages the file, opens it, and wants either words that say what to
// do or everything there. Nothing else, and no panic.
func refusesOrKeeps(t *testing.T, p place, want map[string]string, damaged []byte, what string) (refused bool) {
	t.Helper()
	if err := os.WriteFile(p.file(), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(p.options())
	if err != nil {
		for _, part := range []string{p.file(), "restore a backup"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error %q does not say %q", what, err, part)
			}
		}
		if !bytes.Equal(damaged, read(t, p.file())) {
			t.Errorf("%s: the refused file was changed", what)
		}
		return true
	}
	defer shut(t, s)
	if diff := cmp.Diff(want, everything(t, s)); diff != "" {
		t.Fatalf("%s: it opens with something else in it:\n%s", what, diff)
	}
	// It can be written to: the list of free pages names none that is in use.
	update(t, s, func(tx *Tx) error { return tx.Nodes().Put("n00", Node{ID: "new"}) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after := p.open(t)
	defer shut(t, after)
	got := everything(t, after)
	got["nodes/n00"] = want["nodes/n00"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: writing to it changed something else:\n%s", what, diff)
	}
	return false
}

// A byte that was changed anywhere in the file is noticed, or lies where it means
// nothing.
func TestAChangedByteIsNoticedOrMeansNothing(t *testing.T) {
	t.Parallel()
	p, all := used(t)
	intact := read(t, p.file())
	random := rand.New(rand.NewPCG(1, 2))
	refused, kept := 0, 0
	for page := 0; page+4096 <= len(intact); page += 4096 {
		offsets := []int{}
		for i := range 32 { // headers and elements, where each byte has a meaning
			offsets = append(offsets, i)
		}
		for range 4 {
			offsets = append(offsets, random.IntN(4096))
		}
		for _, i := range offsets {
			damaged := bytes.Clone(intact)
			damaged[page+i] ^= 1 << random.IntN(8)
			if refusesOrKeeps(t, p, all, damaged, fmt.Sprintf("page %d, byte %d", page/4096, i)) {
				refused++
			} else {
				kept++
			}
		}
	}
	t.Logf("%d refused, %d without a meaning", refused, kept)
	if refused == 0 || kept == 0 {
		t.Error("the damage was all of one kind: the test does not reach what it is for")
	}
}

// No number of elements but the right one goes unnoticed, because each is a page with
// fewer records, or with ones that were never written.
func TestAChangedCountIsNoticed(t *testing.T) {
	p, all := used(t)
	intact := read(t, p.file())
	tried := 0
	for page := 2 * 4096; page < len(intact); page += 4096 {
		count := native.Uint16(intact[page+10:])
		for other := range min(count+2, 40) {
			if other == count {
				continue
			}
			damaged := bytes.Clone(intact)
			native.PutUint16(damaged[page+10:], other)
			refusesOrKeeps(t, p, all, damaged, fmt.Sprintf("page %d with %d elements in the place of %d", page/4096, other, count))
			tried++
		}
	}
	if tried < 50 {
		t.Errorf("only %d counts were tried", tried)
	}
}

// A bucket that was large and is empty has a page without elements, and is whole.
func TestAnEmptiedBucketIsIntact(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	id := func(i int) string { return fmt.Sprintf("n%03d", i) }
	update(t, s, func(tx *Tx) (err error) {
		for i := range 300 {
			err = errors.Join(err, tx.Nodes().Put(id(i), Node{ID: id(i), Name: strings.Repeat("x", 100)}))
		}
		return err
	})
	update(t, s, func(tx *Tx) (err error) {
		for i := range 300 {
			err = errors.Join(err, tx.Nodes().Delete(id(i)))
		}
		return err
	})
	shut(t, s)
	view(t, p.open(t), func(tx *Tx) error {
		if all, err := tx.Nodes().All(); len(all) != 0 || err != nil {
			t.Errorf("%d nodes, %v", len(all), err)
		}
		return nil
	})
}

func TestDamageThatStopsTheStart(t *testing.T) {
	p, all := used(t)
	intact := read(t, p.file())
	headers := func(b []byte, pages ...int) []byte {
		for _, page := range pages {
			b[page*4096+40] ^= 1
		}
		return b
	}
	for name, damaged := range map[string][]byte{
		"the first header":          headers(slices.Clone(intact), 0),
		"the second header":         headers(slices.Clone(intact), 1),
		"both headers":              headers(slices.Clone(intact), 0, 1),
		"one byte left":             intact[:1],
		"one page left":             intact[:4096],
		"both headers left":         intact[:2*4096],
		"the last page in use gone": intact[:len(intact)-4096],
		"half a page gone":          intact[:len(intact)-2048],
		"zeros":                     make([]byte, len(intact)),
		"text":                      bytes.Repeat([]byte("no store\n"), 1000),
		"zeros but the headers":     append(slices.Clone(intact[:2*4096]), make([]byte, len(intact)-2*4096)...),
	} {
		t.Run(name, func(t *testing.T) {
			if !refusesOrKeeps(t, p, all, damaged, name) {
				t.Error("the store was opened")
			}
		})
	}
}

// 2,000 nodes in 100 instances, whose documents are some KB each.
func BenchmarkOpen(b *testing.B) {
	p := place{dir: b.TempDir() + "/controller"}
	s, err := Open(p.options())
	if err != nil {
		b.Fatal(err)
	}
	err = s.Update(func(tx *Tx) error {
		for i := range 2000 {
			id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
			if err := tx.Nodes().Put(id, Node{ID: id, Config: bytes.Repeat([]byte{7}, 5000)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	shut(b, s)
	for b.Loop() {
		s, err := Open(p.options())
		if err != nil {
			b.Fatal(err)
		}
		shut(b, s)
	}
}
