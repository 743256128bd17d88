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

// part is a partial download and the hash of what it has so far.
type part struct {
	*os.File
	store *Store
	ref   api.FileReference
	have  int64
	hash  hash.Hash
}

// errNotWritten is an error of this machine's disk, not of the network.
var errNotWritten = errors.New("writing to this machine's disk")

// part opens the partial file, hashes it, and checks that the disk has room for the
// rest.
func (s *Store) part(ref api.FileReference) (*part, error) {
	if err := os.MkdirAll(s.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of files: %w", err)
	}
	f, err := os.OpenFile(s.Path(ref)+partSuffix, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the partial file: %w", err)
	}
	p := &part{File: f, store: s, ref: ref, hash: sha256.New()}
	if err := errors.Join(p.resume(), p.room()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// resume hashes the bytes that an earlier fetch has left. The next request asks for the bytes
// after them.
func (p *part) resume() (err error) {
	if p.have, err = io.Copy(p.hash, p.File); err != nil {
		return fmt.Errorf("reading the partial file: %w", err)
	}
	if p.have > p.ref.SizeBytes {
		return p.reset()
	}
	return nil
}

// room fails if the rest does not fit, so that the download does not fill the disk.
func (p *part) room() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(p.Fd()), &st); err != nil {
		return nil //nolint:nilerr // then it shows while writing
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // their types differ by architecture; no disk is as large
	if missing := p.ref.SizeBytes - p.have; missing > free {
		return fmt.Errorf("the file %s needs %d more bytes in %s, where %d are free: %w", p.ref.Sha256, missing, p.store.Directory, free, syscall.ENOSPC)
	}
	return nil
}

// reset discards what was downloaded.
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

// Write appends to the file. More bytes than the file has are an error.
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

// unwritten frees what was downloaded if the disk is full.
func (p *part) unwritten(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.Join(fmt.Errorf("the file %s does not fit: %w", p.ref.Sha256, err), p.reset())
	}
	return err
}

// finish verifies the content, and only then gives the file its name.
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

// wrong removes the partial file, whose content is not the one expected.
func (p *part) wrong(what string) error {
	err := converge.Wait(api.ReasonFileUnavailable,
		"the download of the file %s (%d bytes) has other content: %s; the agent discards it and downloads it again; if this repeats, check the controller's file and the network path",
		p.ref.Sha256, p.ref.SizeBytes, what)
	if removed := os.Remove(p.Name()); removed != nil {
		return errors.Join(err, removed)
	}
	return err
}

// verified reports whether the file exists with the right content, perhaps put there
// by hand. It removes a file with other content.
func (s *Store) verified(ref api.FileReference) (bool, error) {
	if !s.Has(ref) {
		err := os.Remove(s.Path(ref))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("removing a file that is not the configuration's: %w", err)
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
	s.Log.Warn("a file's content does not have the SHA-256 in its name; removing it and downloading it again", "file", f.Name())
	return false, os.Remove(f.Name())
}
