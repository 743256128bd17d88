// Package files keeps the files that the configuration names: fetched from the
// controller by their SHA-256, whole or not at all, and removed when no document
// names them any more. They lie in the state directory, root's alone.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// partSuffix marks a file that is not whole yet.
const partSuffix = ".part"

// silence is how long a download may bring nothing before it counts as cut off. It
// has no other limit: a large file over a slow way takes as long as it takes.
const silence = 30 * time.Second

// Store is the directory of files. Fetch is for one caller at a time.
type Store struct {
	// Directory is files/ in the agent's state directory; it is made when needed.
	Directory string
	Log       *slog.Logger

	link    atomic.Pointer[link.Link]
	silence time.Duration
}

// New is the store of an agent with this state directory. Before it has a link it
// fetches nothing.
func New(stateDirectory string, log *slog.Logger) *Store {
	return &Store{Directory: filepath.Join(stateDirectory, "files"), Log: log, silence: silence}
}

// Use makes the link the one by which files are fetched.
func (s *Store) Use(l *link.Link) { s.link.Store(l) }

// Path is where a file is, or will be once it is whole.
func (s *Store) Path(ref api.FileReference) string {
	return filepath.Join(s.Directory, filepath.Base(ref.Sha256))
}

// Has says whether a file is there. What it holds is proven by Fetch.
func (s *Store) Has(ref api.FileReference) bool {
	info, err := os.Lstat(s.Path(ref))
	return err == nil && info.Mode().IsRegular() && info.Size() == ref.SizeBytes
}

// Open opens a file for reading; fs.ErrNotExist where it is not there whole.
func (s *Store) Open(ref api.FileReference) (*os.File, error) {
	if !s.Has(ref) {
		return nil, &fs.PathError{Op: "open", Path: s.Path(ref), Err: fs.ErrNotExist}
	}
	return os.Open(s.Path(ref))
}

// Remove removes a file, and what there is of it. That there is nothing is no error.
func (s *Store) Remove(ref api.FileReference) error {
	return s.remove(filepath.Base(s.Path(ref)), filepath.Base(s.Path(ref))+partSuffix)
}

// Keep removes every file, whole or not, but those that are named.
func (s *Store) Keep(named []api.FileReference) error {
	entries, err := os.ReadDir(s.Directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var gone []string
	for _, entry := range entries {
		sum := strings.TrimSuffix(entry.Name(), partSuffix)
		if !slices.ContainsFunc(named, func(f api.FileReference) bool { return f.Sha256 == sum }) {
			gone = append(gone, entry.Name())
		}
	}
	return s.remove(gone...)
}

func (s *Store) remove(names ...string) error {
	var failures []error
	removed := false
	for _, name := range names {
		err := os.Remove(filepath.Join(s.Directory, name))
		switch {
		case err == nil:
			removed = true
		case !errors.Is(err, fs.ErrNotExist):
			failures = append(failures, fmt.Errorf("removing a file that is no longer needed: %w", err))
		}
	}
	if removed {
		failures = append(failures, durable.Directory(s.Directory))
	}
	return errors.Join(failures...)
}
