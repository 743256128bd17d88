package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Destination is the path at which to write a file that a person has named. It follows links. It
// refuses a directory or a device, a file that a process has open (/dev/stdout), a link to
// nothing, and a file in a directory that does not exist.
func Destination(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode().IsRegular() && opened(path):
		return "", fmt.Errorf("%s is a file that a process has open, and would lose what else is written to it; give the name of a file", path)
	case err == nil && info.Mode().IsRegular():
		return filepath.EvalSymlinks(path)
	case err == nil:
		return "", fmt.Errorf("%s is no file, expected a file or nothing", path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a link to nothing; make what it names, or name another file", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", fmt.Errorf("%s: %w; make the directory, or name another file", path, err)
	}
	return path, nil
}

// opened says that the links to a file lead through /proc, which has those to open files.
func opened(path string) bool {
	const procfs = 0x9fa0 // PROC_SUPER_MAGIC
	for range 40 {        // as many links as the kernel follows
		directory := filepath.Dir(path)
		var of syscall.Statfs_t
		if syscall.Statfs(directory, &of) == nil && of.Type == procfs {
			return true
		}
		target, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if path = target; !filepath.IsAbs(target) {
			path = directory + "/" + target
		}
	}
	return false
}
