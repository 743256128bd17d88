package core

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// keepOthersOut takes away what others than the controller's user may do in its data
// directory.
func keepOthersOut(directory string, log *slog.Logger) error {
	info, err := os.Stat(directory)
	if err != nil {
		return fmt.Errorf("reading the state of the data directory: %w", err)
	}
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(directory, mode&^0o077); err != nil {
		return fmt.Errorf("the data directory has mode %#o, so others can look into it: chmod 0700 it: %w", mode, err)
	}
	log.Warn("the data directory was open to other users; its mode was changed", "directory", directory, "was", fmt.Sprintf("%#o", mode), "is", fmt.Sprintf("%#o", mode&^0o077))
	return nil
}

// Missing reports whether a file will have to be made.
func Missing(path string) bool {
	if path == "" {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
