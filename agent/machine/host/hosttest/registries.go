package hosttest

import (
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"time"
)

// insecureRegistries is the list of daemon.json; ok is false if the key is not
// there, and then a reload leaves the engine what it has.
func (m *Machine) insecureRegistries() (list []string, ok bool) {
	var daemon struct {
		Insecure *[]string `json:"insecure-registries"`
	}
	if json.Unmarshal([]byte(m.Files["/etc/docker/daemon.json"].Content), &daemon) != nil || daemon.Insecure == nil {
		return nil, false
	}
	return *daemon.Insecure, true
}

// reloadEngine takes daemon.json over into an engine that runs.
func (m *Machine) reloadEngine() {
	if list, ok := m.insecureRegistries(); ok && m.Containers != nil {
		m.Containers.Insecure = list
	}
}

func (h engine) InsecureRegistries(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil {
		return nil, err
	}
	return append([]string{"127.0.0.0/8"}, e.Insecure...), nil
}

func (h engine) ContainerdStore(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil {
		return "", err
	}
	return e.ContainerdStore, nil
}

func (h files) Modified(path string) (time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.Files[path]; !ok {
		return time.Time{}, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return h.Written[path], nil
}

func (h files) Mode(path string) (fs.FileMode, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.Files[path]
	if !ok {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return f.Mode, nil
}

func (h files) RemoveEmpty(string) error { return nil } // directories of files are not kept here

func (h files) Free(string) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Space, nil
}

func (h files) Match(pattern string) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for name := range h.Files {
		if ok, err := path.Match(pattern, name); err != nil {
			return nil, err
		} else if ok {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, nil
}
