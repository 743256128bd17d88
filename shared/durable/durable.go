// Package durable makes what was written to a file system last through a power
// failure, as far as the os package alone does not.
package durable

import (
	"os"
	"path/filepath"
)

// File makes a file durable that another function has written: its content and its name.
func File(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return Directory(filepath.Dir(path))
}

// Directory makes the entries of a directory last: a file that was created or
// renamed is found after a crash only once its directory has been synced (fsync(2)).
func Directory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
