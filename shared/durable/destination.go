package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Destination is the path at which to write a file that a person has named: that of the file behind
// links. It refuses what is there and is no file, which a file would take the place of, as of
// /dev/stdout; a link to nothing; and a file in a directory that is not there.
func Destination(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
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
