package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// pending is the unfinished file beside path. The name is always the same, so that
// what a killed process left behind is used, not added to, the next time.
func pending(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// Write replaces a file so that a crash at any point leaves all of the old content or
// all of the new, and never more than one unfinished file beside it. It puts content at
// path with this mode, owned by the process. When it has returned nil the content survives a power cut; when it has returned an error, such
// as that of a full disk, path is as it was before. (Only an error of the last step,
// syncing the directory, may come with the new content in place.) The directory has
// to exist. Two processes may write the same path; one comes after the other.
func Write(path string, content []byte, mode fs.FileMode) error {
	f, err := take(pending(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer f.Close() // gives way to the next writer, after the rename
	if err := fill(f, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	if err := Directory(filepath.Dir(path)); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// take opens the unfinished file, for this writer alone. One that another writer
// has renamed meanwhile is that writer's result and not ours to change.
func take(name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", name, err), f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Lstat(name); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close() //nolint:gosec // nothing was written to it
	}
}

// fill writes the content before it gives others the right to read it.
func fill(f *os.File, content []byte, mode fs.FileMode) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}
