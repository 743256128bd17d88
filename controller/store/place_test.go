package store

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// place is a directory with room for a store and its key.
type place struct{ dir string }

func newPlace(t *testing.T) place {
	t.Helper()
	return place{dir: filepath.Join(t.TempDir(), "controller")}
}

func (p place) file() string { return filepath.Join(p.dir, "state.db") }

func (p place) key() string { return filepath.Join(p.dir, "store.key") }

func (p place) options() Options {
	return Options{
		Path: p.file(),
		Key:  KeySource{File: p.key(), Create: true},
		Now:  func() time.Time { return time.Unix(1_790_000_000, 0) },
	}
}

func (p place) open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(p.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // closed already, as a rule
	return s
}

// raw is the file under the store.
func raw(s *Store) *bbolt.DB { return s.engine.(*bolt).db }

func update(t testing.TB, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.View(fn); err != nil {
		t.Fatal(err)
	}
}

func shut(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
