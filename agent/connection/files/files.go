// Package files stores files of the controller, readable by root only: those that the
// configuration names, and builds of the agent. It downloads them by their
// SHA-256, completely or not at all, and removes them when no document names them.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// partSuffix marks a partial download.
const partSuffix = ".part"

// idleTimeout ends a request that receives nothing. Fetch makes another request if that one had
// received data before, and otherwise fails. There is no other limit, because a large file over
// a slow network takes long.
const idleTimeout = 30 * time.Second

// Store is the directory of files. Fetch is for one caller at a time.
type Store struct {
	// Directory is files/ in the agent's state directory; it is made when needed.
	Directory string
	Log       *slog.Logger

	source      source
	link        atomic.Pointer[link.Link]
	idleTimeout time.Duration
}

// source is what a store downloads.
type source struct {
	// get asks for a file, or for a part of it if part is set.
	get func(ctx context.Context, c *client.Controller, sha256 string, part *string) (*http.Response, error)
	// lost says what to do if the controller does not have it.
	lost string
}

// New returns the store in this state directory. It downloads nothing until Use.
func New(stateDirectory string, log *slog.Logger) *Store {
	return &Store{Directory: filepath.Join(stateDirectory, "files"), Log: log, idleTimeout: idleTimeout, source: source{
		get: func(ctx context.Context, c *client.Controller, sha256 string, part *string) (*http.Response, error) {
			return c.GetNodeFile(ctx, sha256, &api.GetNodeFileParams{Range: part})
		},
		lost: "if the controller has lost the file, upload it again (`hitchctl apply --package`)",
	}}
}

// Agents returns a store of builds of the agent for this machine, in this directory.
func Agents(directory string, log *slog.Logger) *Store {
	return &Store{Directory: directory, Log: log, idleTimeout: idleTimeout, source: source{
		get: func(ctx context.Context, c *client.Controller, _ string, part *string) (*http.Response, error) {
			return c.GetAgent(ctx, runtime.GOARCH, &api.GetAgentParams{Range: part})
		},
		lost: "put the agent into the controller's agentDirectory",
	}}
}

// Use sets the link over which files are downloaded.
func (s *Store) Use(l *link.Link) { s.link.Store(l) }

// Path is where a file is once it is complete.
func (s *Store) Path(ref api.FileReference) string {
	return filepath.Join(s.Directory, filepath.Base(ref.Sha256))
}

// Has reports whether a file exists with its size. Fetch verifies the content.
func (s *Store) Has(ref api.FileReference) bool {
	info, err := os.Lstat(s.Path(ref))
	return err == nil && info.Mode().IsRegular() && info.Size() == ref.SizeBytes
}

// Open opens a file for reading. The error is fs.ErrNotExist if it is not complete.
func (s *Store) Open(ref api.FileReference) (*os.File, error) {
	if !s.Has(ref) {
		return nil, &fs.PathError{Op: "open", Path: s.Path(ref), Err: fs.ErrNotExist}
	}
	return os.Open(s.Path(ref))
}

// Remove removes a file and its partial download. A missing file is no error.
func (s *Store) Remove(ref api.FileReference) error {
	return s.remove(filepath.Base(s.Path(ref)), filepath.Base(s.Path(ref))+partSuffix)
}

// Keep removes all files except the named ones, complete or partial.
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
