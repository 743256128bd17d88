package hosttest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

type units struct{ *Machine }

func unitPath(name string) string { return "/etc/systemd/system/" + name }

// text is what systemd would read of a unit now: its file, and our drop-in.
func (m *Machine) text(name string) string {
	return m.Files[unitPath(name)].Content + m.Files[unitPath(name)+".d/nodehitch.conf"].Content
}

func (h units) Unit(_ context.Context, name string) (host.Unit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Fail["systemd"]; err != nil {
		return host.Unit{}, err
	}
	u := h.Units[name]
	if u == nil {
		u = &UnitState{}
	}
	state := host.Unit{Loaded: "loaded", Active: "inactive", File: "disabled", Stale: h.Units[name] != nil && u.Loaded != h.text(name)}
	if h.text(name) == "" && h.Units[name] == nil {
		state.Loaded, state.File = "not-found", ""
	}
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
	if h.Units[name] == nil && h.Files[unitPath(name)].Content == "" {
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
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("start", name); err != nil {
		return &host.JobError{Unit: name, Verb: "start", Result: err.Error()}
	}
	h.changes.Unit()
	u := h.unit(name)
	if u.Loaded == "" {
		u.Loaded = h.text(name)
	}
	if err := h.boot(name); err != nil {
		return &host.JobError{Unit: name, Verb: "start", Result: err.Error()}
	}
	u.Active = true
	return nil
}

// boot is what starting a unit does.
func (m *Machine) boot(name string) error {
	if name == "nfs-server.service" {
		if !m.Installed[host.NFSServer] {
			return errors.New("no such unit")
		}
		m.readExports()
		return nil
	}
	if name == dockerService {
		if m.Containers == nil {
			return errors.New("no such unit")
		}
		m.bootEngine()
		return nil
	}
	text := m.unit(name).Loaded
	what, where := setting(text, "What"), setting(text, "Where")
	i := slices.IndexFunc(m.Disks, func(d *DiskState) bool { return slices.Contains(d.Links, what) })
	switch {
	case where == "":
		return errors.New("no such unit")
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

func (h units) Stop(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("stop", name); err != nil {
		return &host.JobError{Unit: name, Verb: "stop", Result: err.Error()}
	}
	h.changes.Unit()
	u := h.unit(name)
	u.Active = false
	if name == dockerService {
		h.stopEngine()
	}
	if where := setting(u.Loaded, "Where"); where != "" {
		held := slices.ContainsFunc(h.Table, func(e host.Export) bool { return strings.HasPrefix(e.Directory, where+"/") })
		if held {
			return &host.JobError{Unit: name, Verb: "stop", Result: "failed: target is busy"}
		}
		h.unmount(where)
	}
	return nil
}

func (h units) ReloadUnit(_ context.Context, name string) error {
	return h.whileActive("reload", name)
}

func (h units) Restart(_ context.Context, name string) error {
	return h.whileActive("restart", name)
}

// whileActive is a job that leaves the unit active, which it was before.
func (h units) whileActive(verb, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change(verb, name); err != nil {
		return &host.JobError{Unit: name, Verb: verb, Result: err.Error()}
	}
	h.changes.Unit()
	if u := h.Units[name]; u == nil || !u.Active {
		return &host.JobError{Unit: name, Verb: verb, Result: "the unit is not active"}
	}
	if list, ok := h.insecureRegistries(); ok && name == dockerService && h.Containers != nil {
		h.Containers.Insecure = list
	}
	if verb == "restart" && name == dockerService && h.Containers != nil {
		h.stopEngine()
		h.bootEngine()
	}
	if h.Told != nil {
		h.Told(verb, name)
	}
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
