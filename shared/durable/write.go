package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// unfinished is the name of a file that Write has not finished, with the name of what it is to
// replace. os.CreateTemp chooses the digits: nobody can make the file first and read what is
// written to it.
var unfinished = regexp.MustCompile(`^\.(.+)\.[0-9]+\.new$`)

// Write replaces a file so that a crash at any point leaves all of the old content or
// all of the new. It puts content at path with this mode, owned by the process. When it has
// returned nil the content survives a power cut; when it has returned an error, such
// as that of a full disk, path is as it was before. (Only an error of the last step,
// syncing the directory, may come with the new content in place.) The directory has
// to exist. Of two processes that write the same path, the last one wins. What is no regular
// file, such as a device, is not replaced.
//
// No other user can read the content before it has its mode. A process that was killed leaves
// one unfinished file, .NAME.<digits>.new, which the next Write of the same path removes.
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteAs(path, content, mode, -1, -1)
}

// WriteAs is Write with an owner and a group, -1 for those of the process.
func WriteAs(path string, content []byte, mode fs.FileMode, uid, gid int) error {
	return explained(path, write(path, bytes.NewReader(content), mode, uid, gid))
}

// WriteFrom is Write for a content that is too large for the memory. An error of content leaves
// path as it was, too.
func WriteFrom(path string, content io.Reader, mode fs.FileMode) error {
	return explained(path, write(path, content, mode, -1, -1))
}

func explained(path string, err error) error {
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func write(path string, content io.Reader, mode fs.FileMode, uid, gid int) error {
	removeUnfinished(path)
	f, err := create(path)
	if err != nil {
		return err
	}
	defer f.Close() // keeps it from removal until it has its name
	if err := errors.Join(fill(f, content, mode, uid, gid), replaceable(path)); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Directory(filepath.Dir(path))
}

// create makes an unfinished file that only this process's user can open.
func create(path string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.new")
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close(), os.Remove(f.Name()))
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Lstat(f.Name()); err != nil || !os.SameFile(mine, there) {
			f.Close() // nothing was written to it
			continue  // removed by another writer before it was locked
		}
		// A file system may ignore both, as one that gives all files to one user does.
		if Owner(mine) != os.Geteuid() || mine.Mode().Perm()&0o077 != 0 {
			return nil, errors.Join(fmt.Errorf("a new file in %s belongs to user %d and has mode %04o, expected user %d and 0600: choose a directory whose file system keeps owners and modes",
				filepath.Dir(path), Owner(mine), mine.Mode().Perm(), os.Geteuid()), f.Close(), os.Remove(f.Name()))
		}
		return f, nil
	}
}

// Owner is the user to whom a file belongs.
func Owner(info fs.FileInfo) int {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}

// fill writes the content before it gives others the right to read it.
func fill(f *os.File, content io.Reader, mode fs.FileMode, uid, gid int) error {
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	// Not without need: the controller's unit forbids the call.
	if uid != -1 || gid != -1 {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

// replaceable refuses what a rename would replace although it is no file.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("it is %s, expected a file", kindOf(info.Mode()))
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	}
	return "a socket"
}

// removeUnfinished removes what killed writers of this path have left: files of this user that
// no process has locked. What cannot be removed harms nobody.
func removeUnfinished(path string) {
	directory := filepath.Dir(path)
	entries, err := os.ReadDir(directory)
	if err != nil {
		return
	}
	for _, e := range entries {
		if name := unfinished.FindStringSubmatch(e.Name()); name != nil && name[1] == filepath.Base(path) && e.Type().IsRegular() {
			removeUnlocked(filepath.Join(directory, e.Name()))
		}
	}
}

func removeUnlocked(name string) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || Owner(info) != os.Geteuid() {
		return
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.Remove(name)
	}
}
