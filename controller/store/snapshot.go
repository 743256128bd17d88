package store

import (
	"errors"
	"fmt"
	"io"
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

// WriteTo writes a copy of the database as the transaction sees it: a store like
// this one. The key is not in it. Only a View can be copied. Write it to where it is
// soon done: while a transaction is open the file can only grow.
func (t *Tx) WriteTo(w io.Writer) (int64, error) {
	file, ok := t.reader.(io.WriterTo)
	switch {
	case ok:
	case t.writer == nil:
		return 0, errors.New("copying the store: it is in a database that controllers share: back that up")
	default:
		return 0, errors.New("copying the store: the transaction is an Update, whose changes are in no file yet")
	}
	out := &destination{Writer: w}
	n, err := file.WriteTo(out)
	if out.err != nil {
		err = fmt.Errorf("copying the store: %w", out.err)
	}
	return n, err
}

// Size is how many bytes WriteTo writes. The file may be larger: bbolt reserves space.
func (t *Tx) Size() int64 {
	file, ok := t.reader.(interface{ Size() int64 })
	if !ok {
		return 0
	}
	return file.Size()
}

// Space is how many bytes of the file hold records, and how many are free: bbolt keeps free pages
// and what it has reserved for those to come. Of an Update it is zero.
func (t *Tx) Space() (used, free int64, err error) {
	file, ok := t.reader.(interface {
		Space() (used, free int64, err error)
	})
	if !ok {
		return 0, 0, nil
	}
	return file.Space()
}

// destination remembers why it took no more: bbolt keeps only the text of that.
type destination struct {
	io.Writer
	err error
}

// Write writes a piece.
func (d *destination) Write(piece []byte) (int, error) {
	n, err := d.Writer.Write(piece)
	if err != nil {
		d.err = err
	}
	return n, err
}

// Hold keeps every other process from opening the store at path, which need not be
// intact, until release is called. Its error names the process that has it open; it
// is an fs.ErrNotExist if there is none.
func Hold(path string) (release func() error, err error) {
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
