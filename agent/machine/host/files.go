package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/shared/durable"
)

type files struct{ changes *Changes }

// largestFile is the largest configuration file that is read.
const largestFile = 4 << 20

func (f *files) Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("reading %s: is not a file; move it away", path)
	case info.Size() > largestFile:
		return nil, fmt.Errorf("reading %s: has %d bytes, expected at most %d; move it away", path, info.Size(), largestFile)
	}
	return os.ReadFile(path)
}

func (f *files) Same(path string, content []byte, mode fs.FileMode) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm() != mode || !ok || owner.Uid != 0 || owner.Gid != 0 || info.Size() != int64(len(content)) {
		return false, nil
	}
	old, err := os.ReadFile(path)
	return err == nil && bytes.Equal(old, content), err
}

func (f *files) Write(path string, content []byte, mode fs.FileMode) error {
	if same, err := f.Same(path, content, mode); same || err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	f.changes.File()
	return durable.Write(path, content, mode)
}

func (f *files) WriteFrom(path string, content io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	f.changes.File()
	return durable.WriteFrom(path, content, mode)
}

func (f *files) Copy(from, to string, mode fs.FileMode) error {
	content, err := os.Open(from)
	if err != nil {
		return err
	}
	defer content.Close()
	return f.WriteFrom(to, content, mode)
}

func (f *files) Edit(path string, content []byte, mode fs.FileMode) error {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if link, err := os.Readlink(path); err == nil {
			return fmt.Errorf("writing %s: it leads to %s, which does not exist; make that file, or remove the link", path, link)
		}
		return f.Write(path, content, mode)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return fmt.Errorf("writing %s: %s is not a file; move it away", path, target)
	}
	f.changes.File()
	return durable.WriteAs(target, content, mode, int(owner.Uid), int(owner.Gid))
}

func (f *files) Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	f.changes.File()
	dir := filepath.Dir(path)
	if strings.HasSuffix(dir, ".d") && !strings.HasSuffix(dir, "exports.d") && !strings.HasSuffix(dir, "nfs.conf.d") {
		// A drop-in directory with files of others is not empty, and stays.
		if os.Remove(dir) == nil {
			dir = filepath.Dir(dir)
		}
	}
	return durable.Directory(dir)
}

func (f *files) Mode(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

func (f *files) Modified(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func (f *files) RemoveEmpty(directory string) error {
	err := syscall.Rmdir(directory)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("removing the empty directory %s: %w", directory, err)
	}
	f.changes.Directory()
	return durable.Directory(filepath.Dir(directory))
}

func (f *files) Free(directory string) (int64, error) {
	var of unix.Statfs_t
	if err := unix.Statfs(directory, &of); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: directory, Err: err}
	}
	return int64(of.Bavail) * int64(of.Bsize), nil //nolint:unconvert // their types differ by architecture; no disk is as large
}

func (f *files) Match(pattern string) ([]string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", pattern, err)
	}
	return found, nil
}
