// Package host has all access to the machine: files, block devices, mounts, systemd
// units, packages and the NFS server. It reads and changes the machine for the other
// packages, which decide, and knows nothing of documents, conditions or permits.
//
// commands.go lists the commands and paths that it uses. Package hosttest has the same
// interfaces for a machine in memory.
package host

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Host is a machine.
type Host struct {
	Files       Files
	Directories Directories
	Disks       Disks
	Mounts      Mounts
	Units       Units
	Packages    Packages
	NFS         NFS
	Programs    EnginePrograms
	Engine      Engine
	Ports       Ports
	Kernel      Kernel
	Kubeadm     Kubeadm
	Processes   Processes
	Images      Images
	Keepalived  Checker
	// Changes counts what was changed on the machine; a converged node adds nothing.
	Changes *Changes
}

// Files are small configuration files.
type Files interface {
	// Read is the content of a file; fs.ErrNotExist if there is none.
	Read(path string) ([]byte, error)
	// Mode is the permissions of a file; fs.ErrNotExist if there is none.
	Mode(path string) (fs.FileMode, error)
	// Modified is when a file was written last; fs.ErrNotExist if there is none.
	Modified(path string) (time.Time, error)
	// Write gives the file this content and mode and root as its owner, and makes the
	// directories above it. The write is atomic, and on disk when Write returns. A file that
	// is already right is not touched.
	Write(path string, content []byte, mode fs.FileMode) error
	// WriteFrom is Write for a program, which is too large for the memory. It always writes.
	WriteFrom(path string, content io.Reader, mode fs.FileMode) error
	// Copy is WriteFrom with the content of another file, of any size; fs.ErrNotExist if there is
	// none.
	Copy(from, to string, mode fs.FileMode) error
	// Edit replaces the content and mode of a file that belongs to others: owner and group
	// stay, and a symbolic link stays too, the file that it leads to is written. Without a
	// file it is Write; a link that leads nowhere is an error.
	Edit(path string, content []byte, mode fs.FileMode) error
	// Same reports whether Write would do nothing.
	Same(path string, content []byte, mode fs.FileMode) (bool, error)
	// Remove removes a file, and the directory above it if that is a drop-in directory (….d)
	// and now empty. It is no error if there is no file.
	Remove(path string) error
	// RemoveEmpty removes an empty directory. It is no error if the directory is not empty or
	// does not exist.
	RemoveEmpty(directory string) error
	// Free is how many bytes the file system of a directory has left.
	Free(directory string) (int64, error)
	// Match returns the files whose paths match a pattern of glob(7), in order.
	Match(pattern string) ([]string, error)
}

// Directory is what is found at a path that volumes are mounted on.
type Directory struct {
	// Exists; if it is false, the other members mean nothing.
	Exists bool
	// NotDirectory says what it is instead, "" for a directory.
	NotDirectory string
	// Real is the path without symbolic links. If the directory does not exist, the links
	// are resolved up to the nearest directory above it that does.
	Real string
	// Entries is the name of one entry, "" if it is empty.
	Entry string
	Mode  fs.FileMode
	// Guarded says that no program can write in it: mode 0000, and immutable if the
	// filesystem supports that, because mode 0000 does not stop root.
	Guarded bool
}

// Shared is a directory inside a mounted filesystem that is served to others.
type Shared struct {
	Exists bool
	UID    int
	GID    int
	Mode   fs.FileMode
}

// Directories are mount points, and directories inside what is mounted on them.
type Directories interface {
	// Inspect describes a mount point on which nothing is mounted.
	Inspect(path string) (Directory, error)
	// Guard guards the directory (see Directory), and makes it if there is none.
	Guard(path string) error
	// Unguard lifts the guard and gives the directory this mode. If remove is set, it removes
	// the directory if it is empty.
	Unguard(path string, mode fs.FileMode, remove bool) error
	// Make makes a directory of the root disk with this mode, owned by root, and the
	// directories above it, readable for all. An existing directory is not changed.
	Make(path string, mode fs.FileMode) error
	// InspectInside describes the directory rel of the filesystem mounted at root. It follows
	// no symbolic link and enters no other filesystem. It fails if the filesystem at root is
	// not that of the device.
	InspectInside(root string, device Number, rel string) (Shared, error)
	// MakeInside makes the directory rel and those above it, and gives it this owner and
	// mode. An existing directory keeps its rights and gets those of want too. It fails like
	// InspectInside.
	MakeInside(root string, device Number, rel string, want Shared) error
	// MakePrivate makes the directory rel, and gives it the mode 0700. It fails if another user
	// than root can replace it: if one owns, or can write to, root or a directory on the way.
	// It also fails like InspectInside.
	MakePrivate(root string, device Number, rel string) error
}

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	// Point is where it is mounted, Root the mounted part of the filesystem ("/" = all).
	Point, Root string
	FSType      string
	Source      string
	Device      Number
	// Options of the mount and of the filesystem.
	Options, SuperOptions []string
}

// Mounts is the mount table.
type Mounts interface {
	// List returns the mounts in the order of the table: a later mount hides an earlier one
	// at the same point.
	List() ([]Mount, error)
	// OfProcess is the mount table of another process, such as that of a container.
	OfProcess(pid int) ([]Mount, error)
	// Detach removes a mount from the tree even while it is in use. Use it only if the device
	// is gone, because then nothing can be written back.
	Detach(point string) error
}

// Unit is what systemd knows about a unit.
type Unit struct {
	// Loaded is "loaded", "not-found", "error", …; Active is "active", "inactive",
	// "failed", "activating", …; File is "enabled", "disabled", "" if there is no file.
	Loaded, Active, Sub, File string
	// Stale says that its file has changed since systemd read it.
	Stale bool
	// Job says that systemd is about to start, stop or reload it, as at boot.
	Job bool
}

// Units are systemd's units.
type Units interface {
	Unit(ctx context.Context, name string) (Unit, error)
	// Reload makes systemd read all unit files again.
	Reload(ctx context.Context) error
	// Enable and Disable take effect at the next boot. Unit shows it only after Reload.
	Enable(ctx context.Context, name string) error
	Disable(ctx context.Context, name string) error
	// Start and Stop wait for the job and return a *JobError if its result is not
	// "done". Start forgets earlier failures first.
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	// ReloadUnit asks a running unit to read its configuration again, and Restart stops
	// and starts it. Both wait for the job, as Start does. When the job of a reload is done,
	// many units have only been notified and have not finished.
	ReloadUnit(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	// CommandLine is the argv of the unit's main process, nil if none runs.
	CommandLine(ctx context.Context, name string) ([]string, error)
	// OpenFiles are the paths of the files that the unit's main process has open, nil if none
	// runs.
	OpenFiles(ctx context.Context, name string) ([]string, error)
	// Said is the end of what a unit has logged since boot, on one line; "" if it is unknown.
	Said(ctx context.Context, name string) string
	// OfProcess is the name of the unit that a process belongs to.
	OfProcess(ctx context.Context, pid int) (string, error)
}

// EnginePrograms are the container engines' own programs.
type EnginePrograms interface {
	// ContainerdVersion returns a version such as "1.6.20"; *CommandError if containerd is not
	// installed.
	ContainerdVersion(ctx context.Context) (string, error)
	// ContainerdConfig is what `containerd config dump` prints for the configuration at path,
	// with all that it imports: TOML. If content is not nil it stands for that of the file.
	// If containerd refuses it, Refusal has its message. Of a file that imports no others, what
	// containerd printed is returned again for some minutes, unless the file or containerd is
	// another one.
	ContainerdConfig(ctx context.Context, path string, content []byte) ([]byte, error)
	// ValidateDocker runs dockerd --validate on the content of a daemon.json. If dockerd
	// refuses it, Refusal has its message. It returns nil if dockerd cannot validate (before
	// 23.0) or is not installed.
	ValidateDocker(ctx context.Context, daemonJSON []byte) error
}

// Proxy is the proxy for downloads; it may contain credentials.
type Proxy struct{ HTTP, HTTPS, NoProxy string }

// Software is something that each distribution has in packages of its own.
type Software string

// What the roles need.
const (
	Ext4Tools       Software = "ext4 tools"
	NFSServer       Software = "NFS server"
	NFSClient       Software = "NFS client"
	ContainerEngine Software = "container engine"
	// Keepalived is with curl, by which it asks an API server.
	Keepalived Software = "keepalived"
)

// Packages is the distribution's package manager.
type Packages interface {
	// Missing returns those that are not completely installed.
	Missing(ctx context.Context, needs ...Software) ([]Software, error)
	// Install installs what is missing. Errors: *BusyError if another process uses the
	// package manager, *UnavailableError if a package cannot be installed.
	Install(ctx context.Context, proxy Proxy, needs ...Software) error
	// Name is the name of its packages on this distribution.
	Name(need Software) string
}

// Export is a directory that is exported to a client, with its options as
// exportfs prints them.
type Export struct {
	Directory, Client string
	Options           []string
}

// NFSState is what the kernel's NFS server does now; all zero if it does not run.
type NFSState struct {
	Threads int
	// Clients of NFSv4, each with its lease.
	Clients int
	// Version3 says that NFSv3 is offered too.
	Version3 bool
}

// NFS is the kernel's NFS server, as exportfs(8) sees it.
type NFS interface {
	State() (NFSState, error)
	// SetsScope reports whether rpc.nfsd can set NFSv4.1's scope (nfs-utils 2.6.3 and later).
	SetsScope(ctx context.Context) (bool, error)
	// Exported returns the server's table.
	Exported(ctx context.Context) ([]Export, error)
	// Reexport synchronizes the table with the files.
	Reexport(ctx context.Context) error
	// Unexport removes one entry from the table.
	Unexport(ctx context.Context, directory, client string) error
	// Flush empties the kernel's export cache. It does nothing if there is no NFS server yet.
	Flush(ctx context.Context) error
	// SameHost reports whether two names, or a name and an address, are one host.
	SameHost(ctx context.Context, a, b string) bool
}
