package hosttest

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

type units struct{ *Machine }

var errNoUnit = errors.New("no such unit")

func unitPath(name string) string { return "/etc/systemd/system/" + name }

// text is what systemd would read of a unit now: its file, and our drop-in.
func (m *Machine) text(name string) string {
	return m.Files[unitPath(name)].Content + m.Files[unitPath(name)+".d/nodehitch.conf"].Content
}

// known reports whether there is such a unit. A drop-in alone makes none.
func (m *Machine) known(name string) bool {
	return m.Units[name] != nil || m.Files[unitPath(name)].Content != ""
}

func (h units) Unit(_ context.Context, name string) (host.Unit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Fail["systemd"]; err != nil {
		return host.Unit{}, err
	}
	if !h.known(name) {
		return host.Unit{Loaded: "not-found", Active: "inactive"}, nil
	}
	u := h.Units[name]
	if u == nil { // it is read when it is asked for
		u = h.unit(name)
		u.Loaded = h.text(name)
	}
	state := host.Unit{Loaded: "loaded", Active: "inactive", File: "disabled", Stale: u.Loaded != h.text(name)}
	if u.shown == nil {
		shown := u.Enabled
		u.shown = &shown
	}
	if *u.shown {
		state.File = "enabled"
	}
	if mount := setting(u.Loaded, "Where"); mount != "" {
		u.Active = h.mountedAt(mount) != nil
	}
	if u.Active {
		state.Active = "active"
	}
	state.Sub, state.Job = u.Sub, u.Job
	return state, nil
}

func (h units) Reload(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("reload systemd", ""); err != nil {
		return err
	}
	h.changes.Unit()
	for name, u := range h.Units {
		u.Loaded, u.shown = h.text(name), nil
	}
	return nil
}

func (h units) Enable(ctx context.Context, name string) error { return h.able(name, true) }

func (h units) Disable(ctx context.Context, name string) error { return h.able(name, false) }

func (h units) able(name string, enabled bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	verb := "disable"
	if enabled {
		verb = "enable"
	}
	if err := h.change(verb, name); err != nil {
		return err
	}
	h.changes.Unit()
	if !h.known(name) {
		return errors.New(verb + " " + name + ": no such unit file")
	}
	h.unit(name).Enabled = enabled
	return nil
}

func (m *Machine) unit(name string) *UnitState {
	if m.Units[name] == nil {
		m.Units[name] = &UnitState{}
	}
	return m.Units[name]
}

func (h units) Start(_ context.Context, name string) error {
	return h.job("start", name, func(*UnitState) error { return h.boot(name) })
}

func (h units) Stop(_ context.Context, name string) error {
	return h.job("stop", name, func(u *UnitState) error { return h.halt(name, u) })
}

func (h units) Restart(_ context.Context, name string) error {
	return h.job("restart", name, func(u *UnitState) error {
		if err := h.halt(name, u); err != nil {
			return err
		}
		return h.boot(name)
	})
}

func (h units) ReloadUnit(_ context.Context, name string) error {
	return h.job("reload", name, func(u *UnitState) error {
		if !u.Active {
			return errors.New("the unit is not active")
		}
		if reload := services[name].reload; reload != nil {
			reload(h.Machine)
		}
		return nil
	})
}

// job lets systemd do one thing to a unit that there is.
func (h units) job(verb, name string, do func(*UnitState) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.change(verb, name)
	if err == nil {
		h.changes.Unit()
		err = errNoUnit
		if h.known(name) {
			err = do(h.unit(name))
		}
	}
	if err != nil {
		return &host.JobError{Unit: name, Verb: verb, Result: err.Error()}
	}
	if h.Told != nil && (verb == "reload" || verb == "restart") {
		h.Told(verb, name)
	}
	return nil
}

// boot is what starting a unit does.
func (m *Machine) boot(name string) error {
	u := m.unit(name)
	u.Job = false
	if u.Loaded == "" {
		u.Loaded = m.text(name)
	}
	if path, ok := strings.CutPrefix(setting(u.Loaded, "ConditionPathExists"), "!"); ok {
		if _, exists := m.Files[path]; exists {
			return nil
		}
	}
	if err := m.wanted(name, u); err != nil {
		if errors.Is(err, errSkipped) {
			return nil
		}
		return err
	}
	if strings.HasSuffix(name, ".mount") {
		if err := m.mount(u.Loaded); err != nil {
			return err
		}
	}
	if start := services[name].start; start != nil && !u.Active {
		start(m)
	}
	u.Active = true
	return nil
}

// halt is what stopping a unit does.
func (m *Machine) halt(name string, u *UnitState) error {
	u.Job = false
	if where := setting(u.Loaded, "Where"); where != "" {
		if slices.ContainsFunc(m.Table, func(e host.Export) bool { return strings.HasPrefix(e.Directory, where+"/") }) {
			return errors.New("failed: target is busy")
		}
		if err := m.releaseRecord(where); err != nil {
			return err
		}
		m.unmount(where)
	}
	if stop := services[name].stop; stop != nil {
		stop(m)
	}
	u.Active = false
	return nil
}

// mount does what the text of a mount unit says.
func (m *Machine) mount(text string) error {
	what, where := setting(text, "What"), setting(text, "Where")
	i := slices.IndexFunc(m.Disks, func(d *DiskState) bool { return slices.Contains(d.Links, what) })
	switch {
	case where == "":
		return errNoUnit
	case i < 0:
		return errors.New("timeout")
	case m.Disks[i].Tags["TYPE"] != "ext4":
		return errors.New("failed: wrong fs type")
	case m.mountedAt(where) != nil:
		return nil
	}
	if m.Directories[where] == nil {
		m.Directories[where] = &DirectoryState{}
	}
	m.Disks[i].setUsed()
	m.MountTable = append(m.MountTable, host.Mount{
		Point: where, Root: "/", FSType: "ext4", Source: m.Disks[i].Node, Device: m.Disks[i].Number,
		Options: []string{"rw"}, SuperOptions: []string{"rw"},
	})
	return nil
}

func (h units) CommandLine(_ context.Context, name string) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.Units[name]; u != nil && u.Active {
		return u.Argv, nil
	}
	return nil, nil
}

func (h units) OpenFiles(_ context.Context, name string) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.Units[name]; name != nfsdcld || u == nil || !u.Active {
		return nil, nil
	}
	return h.recordFiles(), nil
}

func (h units) Said(_ context.Context, name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.Units[name]; u != nil {
		return u.Said
	}
	return ""
}

// OfProcess knows the processes that the engine has for ports.
func (h units) OfProcess(_ context.Context, pid int) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Fail["systemd"]; err != nil {
		return "", err
	}
	if e := h.Containers; e != nil && h.known(dockerService) {
		for _, c := range e.Containers {
			if c.PID != 0 && c.proxy() == pid {
				return dockerService, nil
			}
		}
		if pid == takenBy {
			return dockerService, nil
		}
	}
	return "init.scope", nil
}

// Runs is a unit that is enabled and active, with the command line of its main process.
func Runs(name string, argv ...string) Part {
	return func(m *Machine) { m.Units[name] = &UnitState{Enabled: true, Active: true, Argv: argv} }
}

type programs struct{ *Machine }

func (h programs) ContainerdVersion(context.Context) (string, error) {
	h.changes.Read()
	if h.Containerd == "" {
		return "", &host.CommandError{Argv: []string{"containerd", "--version"}, Code: -1, Err: errors.New("no such program is installed")}
	}
	return h.Containerd, nil
}

func (h programs) ContainerdConfig(_ context.Context, path string, content []byte) ([]byte, error) {
	h.changes.Read()
	h.mu.Lock()
	all := maps.Clone(h.Files)
	h.mu.Unlock()
	if content != nil {
		path = filepath.Join(filepath.Dir(path), ".nodehitch-1")
		all[path] = FileState{Content: string(content)}
	}
	return h.Machine.ContainerdConfig(path, all)
}

func (h programs) ValidateDocker(context.Context, []byte) error {
	h.changes.Read()
	return h.InvalidDaemonJSON
}

// setting is a value of a unit file.
func setting(text, key string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.ReplaceAll(value, "%%", "%")
		}
	}
	return ""
}
