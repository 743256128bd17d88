package store

import (
	"fmt"
	"os"
	"syscall"
)

// KeyID names the key that seals the store. It tells nothing about the key.
func (s *Store) KeyID() string { return s.keys.id }

// ID reads the key and returns its name, as KeyID of a store that is sealed with it.
// It never makes a key.
func (k KeySource) ID() (string, error) {
	k.Create = false
	keys, err := k.derive(false)
	if err != nil {
		return "", err
	}
	return keys.id, nil
}

// Size is about how many bytes the records take in a file, or in a backup; that of an Update is
// zero.
func (t *Tx) Size() int64 {
	if t.snapshot == nil {
		return 0
	}
	return t.snapshot.size()
}

// Space is how many bytes of the file have records, and how many are free: bbolt keeps free pages
// and what it has reserved for those to come. Of an Update, and of a shared database, it is zero.
func (t *Tx) Space() (used, free int64, err error) {
	if t.snapshot == nil {
		return 0, 0, nil
	}
	return t.snapshot.space()
}

// Lock keeps every other process from opening the store at path, which need not be
// intact, until unlock is called. Its error names the process that has it open; it
// is an fs.ErrNotExist if there is none.
func Lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a store: %w", err)
	}
	// The lock that bbolt takes.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the store %s is held by another process%s: stop it first: %w", path, holder(path), err)
	}
	return f.Close, nil
}
