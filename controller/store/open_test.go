package store

import (
	"bytes"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func TestFirstStartMakesAPrivateStore(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	for path, want := range map[string]os.FileMode{p.dir: 0o700, p.file(): 0o600, p.key(): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %#o, want %#o", path, got, want)
		}
	}
	if got := s.Epoch(); got != 1_790_000_000 {
		t.Errorf("epoch %d, want the time of the first start", got)
	}
}

func TestSecondOpenNamesTheHolder(t *testing.T) {
	p := newPlace(t)
	p.open(t)
	start := time.Now()
	_, err := Open(p.options())
	wantError(t, err, p.file(), "held by another process", "stop it")
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	if _, statErr := os.Stat("/proc/locks"); statErr == nil {
		wantError(t, err, "pid ")
	}
}

func TestLockOwner(t *testing.T) {
	locks := "1: POSIX  ADVISORY  WRITE 7 00:1f:42 0 EOF\n" +
		"2: FLOCK  ADVISORY  WRITE 8 00:1f:142 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 9 00:1f:42 0 EOF\n"
	for inode, want := range map[uint64]int{42: 9, 142: 8, 2: 0} {
		if got := lockOwner(locks, inode); got != want {
			t.Errorf("inode %d: pid %d, want %d", inode, got, want)
		}
	}
}

func TestPlacesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, p place) error
		says    string
	}{
		"a directory that others can write": {func(_ *testing.T, p place) error { return os.Chmod(p.dir, 0o777) }, "chmod 0700"},
		"a store that others can read":      {func(_ *testing.T, p place) error { return os.Chmod(p.file(), 0o644) }, "chmod 0600"},
		"a damaged store": {func(t *testing.T, p place) error {
			return os.WriteFile(p.file(), bytes.Repeat([]byte("x"), 1<<16), 0o600)
		}, "restore a backup"},
		"another program's bbolt file": {func(t *testing.T, p place) error {
			if err := os.Remove(p.file()); err != nil {
				return err
			}
			db, err := bbolt.Open(p.file(), 0o600, nil)
			if err != nil {
				return err
			}
			defer shut(t, db)
			return db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("etcd")); return err })
		}, "not a nodehitch store"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			shut(t, p.open(t))
			if err := c.prepare(t, p); err != nil {
				t.Fatal(err)
			}
			_, err := Open(p.options())
			wantError(t, err, c.says)
		})
	}
}
