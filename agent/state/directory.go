// Package state stores the agent's own files: the machine's id, key and certificate, and
// the last applied document. All are small, 0600 in a 0700 directory, and replaced
// atomically.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// DefaultDirectory is where the agent keeps its state.
const DefaultDirectory = "/var/lib/nodehitch/agent"

// Damaged is a file with content that the agent does not write: truncated, empty, or
// another program's. Reading it again gives the same error.
type Damaged struct {
	Path string
	Err  error
}

func (e *Damaged) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Path, e.Err) }

// Unwrap is what is wrong with it.
func (e *Damaged) Unwrap() error { return e.Err }

// Directory is an existing state directory.
type Directory struct{ path string }

// Open makes the directory if it does not exist, and removes the rights of others. A
// directory of another user is an error: its content decides what may be removed and
// formatted, and that user may have changed it.
func Open(path string) (*Directory, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("state directory: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("state directory %s: is not a directory; move the file away", path)
	case durable.Owner(info) != os.Geteuid():
		return nil, fmt.Errorf("state directory %s: belongs to user %d, expected %d; that user may have changed what is in it: "+
			"check it, then take it back (`chown -R root: %s`) and restart the agent", path, durable.Owner(info), os.Geteuid(), path)
	case info.Mode().Perm() == 0o700:
		return &Directory{path}, nil
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return &Directory{path}, nil
}

// At is a directory for reading only; it may not exist.
func At(path string) *Directory { return &Directory{path} }

// Path is the path of a file in the directory.
func (d *Directory) Path(name string) string { return filepath.Join(d.path, name) }

// maxFile is more than the agent writes to one file: a document has at most 8 MiB.
const maxFile = 16 << 20

// Read is the content of a file; fs.ErrNotExist if there is none, *Damaged if it is larger
// than all that the agent writes.
func (d *Directory) Read(name string) ([]byte, error) {
	f, err := os.Open(d.Path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		return nil, &Damaged{Path: d.Path(name), Err: fmt.Errorf("it has more than %d bytes", maxFile)}
	}
	return content, err
}

// Write replaces a file. After a crash at any point the file has either the old or the
// new content completely; after Write has returned, the new. It does not write a file
// that has the content already.
func (d *Directory) Write(name string, content []byte) error {
	if old, err := d.Read(name); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return durable.Write(d.Path(name), content, 0o600)
}

// Remove removes a file; that it is not there is no error.
func (d *Directory) Remove(name string) error {
	if err := os.Remove(d.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Directory(d.path)
}

// Rename gives a file the name of another, which it replaces.
func (d *Directory) Rename(from, to string) error {
	if err := os.Rename(d.Path(from), d.Path(to)); err != nil {
		return err
	}
	return durable.Directory(d.path)
}

// ReadJSON reads a file into v. It reports false if there is no file; *Damaged if it is
// not JSON of this form. Members that v does not have are ignored.
func (d *Directory) ReadJSON(name string, v any) (bool, error) {
	content, err := d.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return false, &Damaged{Path: d.Path(name), Err: err}
	}
	return true, nil
}

// WriteJSON replaces a file as Write does.
func (d *Directory) WriteJSON(name string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return d.Write(name, append(content, '\n'))
}
