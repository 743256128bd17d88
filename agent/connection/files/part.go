package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// part is a file that is being fetched: what is there of it, and the hash of that.
type part struct {
	*os.File
	store *Store
	ref   api.FileReference
	have  int64
	hash  hash.Hash
}

// errNotWritten is of this machine's disk, not of the way to the controller.
var errNotWritten = errors.New("writing to this machine's disk")

// part opens what there is of a file, reads it for its hash, and makes sure that
// there is room for the rest.
func (s *Store) part(ref api.FileReference) (*part, error) {
	if err := os.MkdirAll(s.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of files: %w", err)
	}
	f, err := os.OpenFile(s.Path(ref)+partSuffix, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening what is there of a file: %w", err)
	}
	p := &part{File: f, store: s, ref: ref, hash: sha256.New()}
	if err := errors.Join(p.resume(), p.room()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// resume hashes what an earlier process has left.
func (p *part) resume() (err error) {
	if p.have, err = io.Copy(p.hash, p.File); err != nil {
		return fmt.Errorf("reading what is there of a file: %w", err)
	}
	if p.have > p.ref.SizeBytes {
		return p.reset()
	}
	return nil
}

// room fails where the rest does not fit, before it fills the disk of everybody.
func (p *part) room() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(p.Fd()), &st); err != nil {
		return nil //nolint:nilerr // then it shows while writing
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:gosec,unconvert // their types differ by architecture; no disk is as large
	if missing := p.ref.SizeBytes - p.have; missing > free {
		return fmt.Errorf("the file %s needs %d more bytes in %s, where %d are free: %w", p.ref.Sha256, missing, p.store.Directory, free, syscall.ENOSPC)
	}
	return nil
}

// reset begins anew.
func (p *part) reset() error {
	if p.have == 0 {
		return nil
	}
	if err := p.Truncate(0); err != nil {
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	if _, err := p.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	p.have = 0
	p.hash.Reset()
	return nil
}

// Write takes what comes next. More than the file has is an error.
func (p *part) Write(b []byte) (int, error) {
	if p.have+int64(len(b)) > p.ref.SizeBytes {
		return 0, p.wrong(fmt.Sprintf("it has more than %d bytes", p.ref.SizeBytes))
	}
	n, err := p.File.Write(b)
	p.have += int64(n)
	p.hash.Write(b[:n]) //nolint:errcheck // never fails
	if err != nil {
		return n, fmt.Errorf("%w: %w", errNotWritten, err)
	}
	return n, nil
}

// unwritten gives a full disk back what was written to it.
func (p *part) unwritten(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.Join(fmt.Errorf("the file %s does not fit: %w", p.ref.Sha256, err), p.reset())
	}
	return err
}

// finish proves the content, and only then gives the file its name.
func (p *part) finish() error {
	if found := hex.EncodeToString(p.hash.Sum(nil)); found != p.ref.Sha256 {
		return p.wrong("its SHA-256 is " + found)
	}
	if err := p.Sync(); err != nil {
		return p.unwritten(fmt.Errorf("%w: %w", errNotWritten, err))
	}
	if err := os.Rename(p.Name(), p.store.Path(p.ref)); err != nil {
		return err
	}
	return durable.Directory(p.store.Directory)
}

// wrong throws the content away.
func (p *part) wrong(what string) error {
	err := converge.Wait(api.ReasonFileUnavailable,
		"what came as the file %s (%d bytes) is another: %s; it is thrown away and fetched again: if that goes on, look at the controller's file and at what is in between",
		p.ref.Sha256, p.ref.SizeBytes, what)
	if removed := os.Remove(p.Name()); removed != nil {
		return errors.Join(err, removed)
	}
	return err
}

// proven says whether the file is there with the right content; another content is
// removed. It may have been put there by hand.
func (s *Store) proven(ref api.FileReference) (bool, error) {
	if !s.Has(ref) {
		err := os.Remove(s.Path(ref))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("removing what is not the file of the configuration: %w", err)
		}
		return false, nil
	}
	f, err := s.Open(ref)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	if hex.EncodeToString(h.Sum(nil)) == ref.Sha256 {
		return true, nil
	}
	s.Log.Warn("a file has another content than its name says; it is removed and fetched anew", "file", f.Name())
	return false, os.Remove(f.Name())
}
