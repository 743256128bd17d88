package hosttest

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

type directories struct{ *Machine }

func (h directories) Inspect(path string) (host.Directory, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.Directories[path]
	if d == nil {
		return host.Directory{Real: path}, nil
	}
	found := host.Directory{Exists: true, NotDirectory: d.Not, Real: path, Entry: d.Entry, Mode: d.Mode}
	if d.Real != "" {
		found.Real = d.Real
	}
	found.Guarded = d.Mode == 0 && d.Immutable
	return found, nil
}

func (h directories) Guard(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("guard", path); err != nil {
		return err
	}
	h.changes.Directory()
	h.Directories[path] = &DirectoryState{Immutable: true}
	return nil
}

func (h directories) Unguard(path string, mode fs.FileMode, remove bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Directories[path] == nil {
		return nil
	}
	if err := h.change("unguard", path); err != nil {
		return err
	}
	h.changes.Directory()
	h.Directories[path] = &DirectoryState{Mode: mode}
	if remove {
		delete(h.Directories, path)
	}
	return nil
}

func (h directories) Make(path string, mode fs.FileMode) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.Directories[path]; d != nil && d.Not == "" {
		return nil
	}
	if err := h.change("make", path); err != nil {
		return err
	}
	h.changes.Directory()
	h.Directories[path] = &DirectoryState{Mode: mode}
	return nil
}

func (h directories) inside(root string, device host.Number) (*DiskState, error) {
	m := h.mountedAt(root)
	if m == nil || m.Device != device || h.byNumber(device) == nil {
		return nil, fmt.Errorf("entering %s: the filesystem there is not that of %s", root, device)
	}
	return h.byNumber(device), nil
}

func (h directories) InspectInside(root string, device host.Number, rel string) (host.Shared, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.inside(root, device)
	if err != nil {
		return host.Shared{}, err
	}
	found := d.Inside[rel]
	switch {
	case found == nil:
		return host.Shared{}, nil
	case found.Problem != "":
		return host.Shared{}, &host.PathError{Path: root + "/" + rel, Problem: found.Problem}
	}
	return found.Shared, nil
}

// making is the disk on which rel is about to be made.
func (h directories) making(root string, device host.Number, rel string) (*DiskState, error) {
	d, err := h.inside(root, device)
	if err == nil {
		err = h.change("make", root+"/"+rel)
	}
	if err == nil {
		h.changes.Directory()
	}
	return d, err
}

func (h directories) MakeInside(root string, device host.Number, rel string, want host.Shared) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.making(root, device, rel)
	if err != nil {
		return err
	}
	if old := d.Inside[rel]; old != nil {
		want.Mode |= old.Mode
	}
	d.Inside[rel] = &Inside{Shared: want}
	return nil
}

func (h directories) MakePrivate(root string, device host.Number, rel string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.making(root, device, rel)
	if err != nil {
		return err
	}
	for way := rel; ; way = path.Dir(way) {
		if found := d.Inside[way]; found != nil && (found.UID != 0 || found.Mode&0o022 != 0) {
			return &host.PathError{Path: path.Join(root, way), Problem: "can be written to by others"}
		}
		if way == "." {
			break
		}
	}
	d.Inside[rel] = &Inside{Shared: host.Shared{Exists: true, Mode: 0o700}}
	return nil
}
