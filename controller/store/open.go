package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	bbolterrors "go.etcd.io/bbolt/errors"
)

// preparePath makes the directory and refuses a place that others can write, or a
// file that others can read.
func preparePath(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the store: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("reading the directory of the store: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the directory of the store, %s, has mode %#o, so others can replace what is in it: chmod 0700 it",
			dir, info.Mode().Perm())
	}
	info, err = os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("reading the state of the store file: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("the store %s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("the store %s has mode %#o, so others can read it: chmod 0600 it", path, info.Mode().Perm())
	}
	return nil
}

func explainOpen(path string, err error) error {
	var damaged *DamagedError
	switch {
	case errors.As(err, &damaged):
		return damaged
	case errors.Is(err, bbolterrors.ErrTimeout):
		return fmt.Errorf("the store %s is held by another process%s: stop it, or give this controller a store of its own: %w",
			path, holder(path), err)
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrChecksum), errors.Is(err, bbolterrors.ErrVersionMismatch):
		return fmt.Errorf("%s is not an intact store: restore a backup, or move it away to begin anew: %w", path, err)
	}
	return fmt.Errorf("opening the store: %w", err)
}

// holder names the process that has the file locked, "" when the kernel does not
// tell (another pid namespace, another host).
func holder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	pid := lockOwner(string(locks), stat.Ino)
	if pid == 0 {
		return ""
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return fmt.Sprintf(", pid %d (%s)", pid, strings.TrimSpace(string(command)))
}

// lockOwner finds the holder of a flock in the text of /proc/locks (proc(5)). The
// device is not compared: stat names another one than the lock table on btrfs and
// overlays.
func lockOwner(locks string, inode uint64) int {
	suffix := ":" + strconv.FormatUint(inode, 10)
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], suffix) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
