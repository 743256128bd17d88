// Package hosttest is a machine in memory, for tests of steps: a test describes a
// situation, lets a step plan and act, and checks the result.
//
//	m := hosttest.New(
//		hosttest.Disk("4a0d…", 1<<30, hosttest.Ext4(uuid), hosttest.File("kept")),
//		hosttest.Directory("/volume", hosttest.Containing("photo.jpg")),
//	)
//
// It behaves like Linux, systemd and exportfs as far as the steps can tell; other tests use
// the real ones.
package hosttest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// Machine is what a Host sees. Its fields may be changed between passes.
type Machine struct {
	mu sync.Mutex
	// Disks are what is attached, in the order in which the kernel found them.
	Disks []*DiskState
	// Files by path, below /etc and in the state directory.
	Files map[string]FileState
	// Directories on the root disk, by path.
	Directories map[string]*DirectoryState
	MountTable  []host.Mount
	Units       map[string]*UnitState
	// Installed software, and what the package manager cannot install, with its error.
	Installed   map[host.Software]bool
	Unavailable error
	// Containerd is the version of the containerd that is installed, "" for none.
	Containerd string
	// ContainerdConfig runs that containerd: it prints what it makes of one of these files.
	ContainerdConfig func(path string, files map[string]FileState) ([]byte, error)
	// InvalidDaemonJSON is what dockerd --validate says of every daemon.json, nil if it takes all.
	InvalidDaemonJSON error
	// Containers is the container engine, nil if none is installed. Taken are the ports
	// that others listen on, Answers what is answered there instead of what a registry does.
	Containers *EngineState
	Taken      map[int][]host.Listener
	Answers    map[int]host.Answer
	Kernel     KernelState
	Kubernetes KubernetesState
	Images     ImagesState
	Keepalived KeepalivedState
	// Processes are those of Pods. One that is ended is started again.
	Processes []host.Process
	// Written is when kubeadm wrote a file, or a test did. Clock is the machine's; nil = time.Now.
	Written map[string]time.Time
	Clock   func() time.Time
	// Space is what file systems have left, in bytes.
	Space int64
	// Table is the NFS server's.
	Table []host.Export
	NFSD  NFSDState
	// Fail makes an operation fail; operations are named as in Trace, with or without details.
	Fail map[string]error
	// Before is called before each change, with its line of the trace.
	Before func(change string)
	// Told is called when a unit was reloaded or restarted, so that a test can let its
	// service do what it does then. It is called with the machine locked.
	Told func(verb, unit string)
	// Trace has a line for each change, such as "mkfs virtio-4a0d…".
	Trace []string
	// CrashAt lets the machine stop before the n-th change from now on: it panics
	// with Crash. 0 = never.
	CrashAt int
	// Proxy is what the last installation got.
	Proxy host.Proxy

	changes host.Changes
	numbers uint32
	// unsynced are the files of kubeadm that a power failure would leave without content.
	unsynced map[string]bool
	// stopped is how the machine has stopped.
	stopped Crash
}

// Crash is the panic of a machine that stops.
type Crash struct{ Before string }

// FileState is a file.
type FileState struct {
	Content string
	Mode    fs.FileMode
}

// UnitState is what systemd knows of a unit.
type UnitState struct {
	Enabled, Active bool
	// Job says that systemd is about to start or stop it.
	Job bool
	// Loaded is the text that systemd has read.
	Loaded string
	// Argv is the command line of its main process.
	Argv []string
	// Sub is its state in detail, if it is not what Active says, and Said the end of its log.
	Sub, Said string
	// shown is what systemd remembers of Enabled until it is reloaded.
	shown *bool
}

// DirectoryState is a directory on the root disk.
type DirectoryState struct {
	// Not says what it is instead of a directory; Real where it leads to.
	Not, Real string
	Entry     string
	Mode      fs.FileMode
	Immutable bool
}

// Part is a part of a situation.
type Part func(*Machine)

// New is a machine with these parts. The programs for ext4 are installed, the NFS
// server is not.
func New(parts ...Part) *Machine {
	m := &Machine{
		Files: map[string]FileState{}, Directories: map[string]*DirectoryState{}, Units: map[string]*UnitState{},
		Installed: map[host.Software]bool{host.Ext4Tools: true}, Fail: map[string]error{},
		Taken: map[int][]host.Listener{}, Answers: map[int]host.Answer{}, Kernel: newKernel(), Written: map[string]time.Time{}, Space: 10 << 30,
		unsynced: map[string]bool{},
	}
	for _, part := range parts {
		part(m)
	}
	return m
}

// Host is the machine for steps.
func (m *Machine) Host() *host.Host {
	return &host.Host{
		Files: files{m}, Directories: directories{m}, Disks: disks{m}, Mounts: mounts{m},
		Units: units{m}, Packages: packages{m}, NFS: nfs{m}, Programs: programs{m},
		Engine: engine{m}, Ports: ports{m}, Kernel: kernel{m}, Kubeadm: kubeadm{m}, Processes: processes{m}, Images: images{m}, Keepalived: keepalived{m}, Changes: &m.changes,
	}
}

// Changes counts what was changed.
func (m *Machine) Changes() host.Count { return m.changes.Count() }

// change records one change of the machine, unless the machine stops before it or
// it fails. The caller has locked mu.
func (m *Machine) change(operation, detail string) error {
	line := strings.TrimSpace(operation + " " + detail)
	if m.Before != nil {
		m.mu.Unlock()
		m.Before(line)
		m.mu.Lock()
	}
	if m.CrashAt > 0 {
		if m.CrashAt--; m.CrashAt == 0 {
			m.stopped = Crash{line}
			panic(m.stopped)
		}
	}
	if err := errors.Join(m.Fail[operation], m.Fail[line]); err != nil {
		m.Trace = append(m.Trace, line+": failed")
		return fmt.Errorf("%s: %w", line, err)
	}
	m.Trace = append(m.Trace, line)
	return nil
}

// PowerCut is a reboot after a power failure. Of files that nobody has synchronized the disk has
// the names, and not the content. What the agent itself writes is on the disk at once.
func (m *Machine) PowerCut() {
	m.mu.Lock()
	for path, lost := range m.unsynced {
		if f, there := m.Files[path]; there && lost {
			m.Files[path] = FileState{Mode: f.Mode}
		}
	}
	clear(m.unsynced)
	m.mu.Unlock()
	m.Reboot()
}

// Reboot forgets what only memory contains, and does what systemd does at boot.
func (m *Machine) Reboot() {
	m.PowerOn()
	m.Boot()
}

// PowerOn forgets what only memory contains. systemd has a job for each unit that is enabled,
// and has begun none.
func (m *Machine) PowerOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.MountTable, m.Table, m.CrashAt = nil, nil, 0
	m.NFSD.Conf, m.NFSD.DropIn, m.NFSD.Exported, m.NFSD.Record, m.NFSD.OtherTracking = "", "", nil, "", false
	m.bootKernel()
	m.stopEngine()
	m.stopKeepalived()
	for name, u := range m.Units {
		u.Active, u.Job, u.shown = false, u.Enabled, nil
		u.Loaded = m.text(name)
	}
}

// Boot does the jobs that systemd still has, mounts first.
func (m *Machine) Boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mounts := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(m.Units)) {
			if m.Units[name].Job && strings.HasSuffix(name, ".mount") == mounts {
				_ = m.boot(name) // one that fails stays inactive
			}
		}
	}
}

// Server says that the NFS server is installed, enabled and runs.
func Server(m *Machine) {
	m.Installed[host.NFSServer] = true
	m.bring(host.NFSServer)
}

// Directory is a directory of the root disk.
func Directory(path string, how ...func(*DirectoryState)) Part {
	return func(m *Machine) {
		d := &DirectoryState{Mode: 0o755}
		for _, h := range how {
			h(d)
		}
		m.Directories[path] = d
	}
}

// Containing says what is in a directory.
func Containing(entry string) func(*DirectoryState) {
	return func(d *DirectoryState) { d.Entry = entry }
}

// Not says that the path is something else, such as "a file".
func Not(what string) func(*DirectoryState) { return func(d *DirectoryState) { d.Not = what } }

// LeadingTo says that the path is reached through a symbolic link.
func LeadingTo(real string) func(*DirectoryState) {
	return func(d *DirectoryState) { d.Real = real }
}

// Mounted puts something that is not ours at a path.
func Mounted(path, fstype, source string) Part {
	return func(m *Machine) {
		m.numbers++
		m.MountTable = append(m.MountTable, host.Mount{
			Point: path, Root: "/", FSType: fstype, Source: source,
			Device: host.Number{Major: 0, Minor: 40 + m.numbers}, Options: []string{"rw"}, SuperOptions: []string{"rw"},
		})
	}
}

// WithFile is a file of the root disk.
func WithFile(path, content string, mode fs.FileMode) Part {
	return func(m *Machine) { m.Files[path] = FileState{content, mode} }
}

// Missing says that a package cannot be had.
func Missing(err error) Part { return func(m *Machine) { m.Unavailable = err } }
