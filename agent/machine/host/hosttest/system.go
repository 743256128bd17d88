package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

type files struct{ *Machine }

func (h files) Read(path string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.Files[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if len(f.Content) > 4<<20 {
		return nil, fmt.Errorf("reading %s: has %d bytes", path, len(f.Content))
	}
	return []byte(f.Content), nil
}

func (h files) Same(path string, content []byte, mode fs.FileMode) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.Files[path]
	return ok && f.Content == string(content) && f.Mode == mode, nil
}

func (h files) Write(path string, content []byte, mode fs.FileMode) error {
	if same, _ := h.Same(path, content, mode); same {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("write", path); err != nil {
		return err
	}
	h.changes.File()
	h.Files[path] = FileState{string(content), mode}
	delete(h.unsynced, path)
	return nil
}

func (h files) WriteFrom(path string, content io.Reader, mode fs.FileMode) error {
	all, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("write", path); err != nil {
		return err
	}
	h.changes.File()
	h.Files[path] = FileState{string(all), mode}
	delete(h.unsynced, path)
	return nil
}

func (h files) Copy(from, to string, mode fs.FileMode) error {
	h.mu.Lock()
	f, ok := h.Files[from]
	h.mu.Unlock()
	if !ok {
		return &fs.PathError{Op: "open", Path: from, Err: fs.ErrNotExist}
	}
	return h.WriteFrom(to, strings.NewReader(f.Content), mode)
}

func (h files) Edit(path string, content []byte, mode fs.FileMode) error {
	return h.Write(path, content, mode) // there are no links and no other owners here
}

func (h files) Remove(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.Files[path]; !ok {
		return nil
	}
	if err := h.change("remove", path); err != nil {
		return err
	}
	h.changes.File()
	delete(h.Files, path)
	delete(h.unsynced, path)
	return nil
}

type mounts struct{ *Machine }

func (h mounts) List() ([]host.Mount, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.MountTable), nil
}

func (h mounts) OfProcess(pid int) ([]host.Mount, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Containers != nil {
		for _, c := range h.Containers.Containers {
			if c.PID == pid && pid != 0 {
				return slices.Clone(c.Mounts), nil
			}
		}
	}
	return nil, fmt.Errorf("reading the mount table of process %d: %w", pid, fs.ErrNotExist)
}

func (h mounts) Detach(point string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("detach", point); err != nil {
		return err
	}
	h.changes.Directory()
	h.unmount(point)
	return nil
}

func (m *Machine) unmount(point string) {
	for i := range slices.Backward(m.MountTable) {
		if m.MountTable[i].Point == point {
			m.MountTable = slices.Delete(m.MountTable, i, i+1)
			return
		}
	}
}

func (m *Machine) mountedAt(point string) *host.Mount {
	for i := range slices.Backward(m.MountTable) {
		if m.MountTable[i].Point == point {
			return &m.MountTable[i]
		}
	}
	return nil
}

type packages struct{ *Machine }

func (h packages) Name(need host.Software) string { return string(need) }

func (h packages) Missing(_ context.Context, needs ...host.Software) ([]host.Software, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(needs), func(n host.Software) bool { return h.Installed[n] }), nil
}

func (h packages) Install(_ context.Context, proxy host.Proxy, needs ...host.Software) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	h.Proxy = proxy
	if h.Unavailable != nil {
		return h.Unavailable
	}
	if err := h.change("install", fmt.Sprint(needs)); err != nil {
		return err
	}
	for _, n := range needs {
		if h.bring(n) { // its service runs, and the rest of the installation can fail
			if err := h.change("configure", fmt.Sprint(needs)); err != nil {
				return err
			}
		}
		h.Installed[n] = true
	}
	return nil
}

type nfs struct{ *Machine }

func (h nfs) State() (host.NFSState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stateOfNFSD(), nil
}

func (h nfs) SetsScope(context.Context) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Read()
	if h.Units[nfsServer] == nil {
		return false, errNoServer
	}
	return h.NFSD.SetsScope, nil
}

var errNoServer = errors.New("no such program is installed")

func (h nfs) Exported(context.Context) ([]host.Export, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Read()
	if h.Units[nfsServer] == nil {
		return nil, errNoServer
	}
	return slices.Clone(h.Table), nil
}

// Reexport keeps, as nfs-utils 2.6 does, an entry whose mountpoint= is not mounted.
func (h nfs) Reexport(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	if h.Units[nfsServer] == nil {
		return errNoServer
	}
	if err := h.change("exportfs -ra", ""); err != nil {
		return err
	}
	before := h.Table
	h.readExports()
	for _, e := range before {
		if h.unguarded(e) && !slices.ContainsFunc(h.Table, func(n host.Export) bool { return n.Directory == e.Directory && n.Client == e.Client }) {
			h.Table = append(h.Table, e)
		}
	}
	return nil
}

// unguarded reports whether an export has a mountpoint= at which nothing is mounted.
func (m *Machine) unguarded(e host.Export) bool {
	return slices.ContainsFunc(e.Options, func(option string) bool {
		point, ok := strings.CutPrefix(option, "mountpoint=")
		return ok && m.mountedAt(point) == nil
	})
}

func (m *Machine) readExports() {
	m.Table = nil
	for path, f := range m.Files {
		if path != "/etc/exports" && !strings.HasPrefix(path, "/etc/exports.d/") {
			continue
		}
		for line := range strings.Lines(f.Content) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			for _, e := range host.ParseExports(line) {
				e.Options = printedOptions(e.Options)
				m.Table = append(m.Table, e)
			}
		}
	}
}

// printedOptions are an export's options as `exportfs -s` of nfs-utils 2.6 prints them: also
// those that are the default, and not every one that was written.
func printedOptions(written []string) []string {
	rest := slices.DeleteFunc(slices.Clone(written), func(option string) bool {
		return slices.Contains([]string{"nocrossmnt", "secure_locks", "acl", "no_pnfs", "no_security_label", "anonuid=65534", "anongid=65534"}, option)
	})
	printed := func(options ...string) (list []string) {
		list = options[:1]
		for _, option := range options {
			if i := slices.Index(rest, option); i >= 0 {
				rest, list = slices.Delete(rest, i, i+1), []string{option}
			}
		}
		return list
	}
	first := slices.Concat(printed("sync", "async"), printed("wdelay", "no_wdelay"), printed("hide", "nohide"), printed("no_subtree_check", "subtree_check"))
	last := slices.Concat(printed("sec=sys"), printed("ro", "rw"), printed("secure", "insecure"), printed("root_squash", "no_root_squash"), printed("no_all_squash", "all_squash"))
	return slices.Concat(first, rest, last)
}

func (h nfs) Unexport(_ context.Context, directory, client string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	if err := h.change("exportfs -u", client+":"+directory); err != nil {
		return err
	}
	h.Table = slices.DeleteFunc(h.Table, func(e host.Export) bool { return e.Directory == directory && e.Client == client })
	return nil
}

func (h nfs) Flush(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Units[nfsServer] == nil {
		return nil
	}
	h.changes.Command()
	return h.change("exportfs -f", "")
}

func (h nfs) SameHost(_ context.Context, a, b string) bool {
	return strings.EqualFold(a, b) || strings.HasPrefix(b, a+".")
}
