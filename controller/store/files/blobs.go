// Package files keeps the files of VNF packages: their content as blobs on disk,
// named by SHA-256, and the records that say which instance calls a blob by which
// path. Content is streamed, never kept in memory, and an upload that was cut
// continues where it stopped.
package files

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// partLife is how long an unfinished upload waits to be resumed.
const partLife = 24 * time.Hour

// ErrNoBlob says that there is no blob of that name.
var ErrNoBlob = errors.New("no such blob")

// Blob is content that lies on disk.
type Blob struct {
	// SHA256 is the content's digest, lower-case hexadecimal.
	SHA256 string
	// SizeBytes is its length.
	SizeBytes int64
}

// Blobs is a directory of blobs and unfinished uploads. A blob appears whole or
// not at all, also after a power failure, and never changes.
type Blobs struct {
	// Peers are the other replicas' package files, nil if there is none. Set it before the first
	// call.
	Peers Peers

	dir string
	max int64
	now func() time.Time
	// fetching has one call for each content that is being fetched.
	fetching singleflight.Group

	// collecting keeps Collect from removing a blob between the moment that it
	// appears and the moment that a record names it.
	collecting sync.RWMutex

	mu    sync.Mutex
	parts map[string]*part
	// pinned counts the holders of each blob that Collect may not remove.
	pinned map[string]int
}

// OpenBlobs opens, or makes (0700), the directory dir. maxBytes bounds one blob.
func OpenBlobs(dir string, maxBytes int64, now func() time.Time) (*Blobs, error) {
	b := &Blobs{dir: dir, max: maxBytes, now: now, parts: make(map[string]*part), pinned: make(map[string]int)}
	for _, d := range []string{b.blobDir(), b.uploadDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("making the directory of package files: %w", err)
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(b.uploadDir(), temporaryPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("listing interrupted uploads: %w", err)
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing an interrupted upload: %w", err)
		}
	}
	return b, nil
}

func (b *Blobs) blobDir() string   { return filepath.Join(b.dir, "blobs") }
func (b *Blobs) uploadDir() string { return filepath.Join(b.dir, "uploads") }

func (b *Blobs) path(sha256 string) string {
	return filepath.Join(b.blobDir(), sha256[:2], sha256)
}

// OpenHere opens a blob of this replica for reading; ErrNoBlob if there is none of this name.
func (b *Blobs) OpenHere(sha256 string) (*os.File, error) {
	if !isDigest(sha256) {
		return nil, ErrNoBlob
	}
	f, err := os.Open(b.path(sha256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoBlob
	}
	if err != nil {
		return nil, fmt.Errorf("opening a package file: %w", err)
	}
	return f, nil
}

// isDigest reports whether the text is a SHA-256, in lower case.
func isDigest(text string) bool {
	digest, err := hex.DecodeString(text)
	return err == nil && len(digest) == 32 && strings.ToLower(text) == text
}

// Collect removes the blobs that named does not contain, that are not pinned and that have been
// here for longer than grace, and unfinished uploads that were not resumed for a day. named is
// called while no blob can appear. It returns how many blobs were removed.
func (b *Blobs) Collect(grace time.Duration, named func() (map[string]bool, error)) (int, error) {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	keep, err := named()
	if err != nil {
		return 0, fmt.Errorf("listing the package files in use: %w", err)
	}
	removed := 0
	err = filepath.WalkDir(b.blobDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || keep[d.Name()] || b.isPinned(d.Name()) {
			return err
		}
		if info, err := d.Info(); err != nil || grace > 0 && b.now().Sub(info.ModTime()) < grace {
			return err
		}
		removed++
		return os.Remove(path)
	})
	if err != nil {
		return removed, fmt.Errorf("removing package files that nothing names: %w", err)
	}
	return removed, b.dropOldParts()
}

func (b *Blobs) dropOldParts() error {
	entries, err := os.ReadDir(b.uploadDir())
	if err != nil {
		return fmt.Errorf("listing unfinished uploads: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || b.now().Sub(info.ModTime()) < partLife {
			continue // finished meanwhile, or young
		}
		p, _ := b.claim(e.Name())
		if p == nil {
			continue // under way
		}
		err = os.Remove(filepath.Join(b.uploadDir(), e.Name()))
		b.unclaim(e.Name(), p, false)
		if err != nil {
			return fmt.Errorf("removing an unfinished upload: %w", err)
		}
	}
	return nil
}
