package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/agent/atomicfile"
	"github.com/nodehitch/nodehitch/shared/durable"
)

type files struct{ changes *Changes }

// largestFile bounds what is read as a configuration file.
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
	return atomicfile.Write(path, content, mode)
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
	if strings.HasSuffix(dir, ".d") && !strings.HasSuffix(dir, "exports.d") {
		// A drop-in directory that others use is not empty, and stays.
		if os.Remove(dir) == nil {
			dir = filepath.Dir(dir)
		}
	}
	return durable.Directory(dir)
}
