// Package host has all access to the machine: files, block devices, mounts, systemd
// units, packages and the NFS server. It reads and changes the machine for the other
// packages, which decide, and knows nothing of documents, conditions or permits.
//
// commands.go lists the commands and paths that it uses. Package hosttest has the same
// interfaces for a machine in memory.
package host

import (
	"context"
	"io/fs"
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
	// Changes counts what was changed on the machine; a converged node adds nothing.
	Changes *Changes
}

// Files are small configuration files.
type Files interface {
	// Read is the content of a file; fs.ErrNotExist if there is none.
	Read(path string) ([]byte, error)
	// Mode is the permissions of a file; fs.ErrNotExist if there is none.
	Mode(path string) (fs.FileMode, error)
	// Write makes the file have this content, this mode and root as its owner, and
	// makes the directories above it. It is atomic and on disk when it returns; a
	// file that is already so is not touched.
	Write(path string, content []byte, mode fs.FileMode) error
	// Same says whether Write would do nothing.
	Same(path string, content []byte, mode fs.FileMode) (bool, error)
	// Remove removes a file, and the directory above it where that is a drop-in
	// directory (….d) left empty. That there is no file is no error.
	Remove(path string) error
	// RemoveEmpty removes a directory with nothing in it. One that is not empty, or not
	// there, is no error.
	RemoveEmpty(directory string) error
	// Match are the files whose paths match a pattern of glob(7), in order.
	Match(pattern string) ([]string, error)
}

// Directory is what is found at a path that volumes are mounted on.
type Directory struct {
	// Exists; the other members mean nothing where it is false.
	Exists bool
	// NotDirectory says what it is instead, "" for a directory.
	NotDirectory string
	// Real is the path without symbolic links. Where the directory does not exist,
	// it is that of the nearest directory above it that does, with the rest added.
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
	// Guard makes the directory where there is none, and guards it (see Directory).
	Guard(path string) error
	// Unguard lifts the guard and gives the directory this mode; where remove is set,
	// it removes the directory if it is empty.
	Unguard(path string, mode fs.FileMode, remove bool) error
	// Make makes a directory of the root disk, root's and with this mode, and those above
	// it for all to read. One that exists stays as it is.
	Make(path string, mode fs.FileMode) error
	// InspectInside describes the directory rel of the filesystem mounted at root. It
	// follows no symbolic link and enters no other filesystem. It fails where the
	// filesystem at root is not that of the device.
	InspectInside(root string, device Number, rel string) (Shared, error)
	// MakeInside makes the directory rel with those above it, and gives it this owner and
	// mode; to the mode of one that is there it adds the rights of want. The conditions
	// are those of InspectInside.
	MakeInside(root string, device Number, rel string, want Shared) error
}

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	// Point is where it is mounted, Root what of the filesystem ("/" = all of it).
	Point, Root string
	FSType      string
	Source      string
	Device      Number
	// Options of the mount and of the filesystem.
	Options, SuperOptions []string
}

// Mounts is the mount table.
type Mounts interface {
	// List is in the order of the table: of two mounts at one point, the later one is
	// what is seen there.
	List() ([]Mount, error)
	// OfProcess is the table as another process has it, such as that of a container.
	OfProcess(pid int) ([]Mount, error)
	// Detach removes a mount from the tree even while it is in use. It is only for a mount
	// whose device is gone, because nothing can be written back.
	Detach(point string) error
}

// Unit is what systemd knows of a unit.
type Unit struct {
	// Loaded is "loaded", "not-found", "error", …; Active is "active", "inactive",
	// "failed", "activating", …; File is "enabled", "disabled", "" if there is no file.
	Loaded, Active, Sub, File string
	// Stale says that its file changed since systemd read it.
	Stale bool
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
	// and starts it. Both wait for the job, as Start does. After the job of a reload many
	// units have only been told, and have not finished.
	ReloadUnit(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	// CommandLine is the argv of the unit's main process, nil if none runs.
	CommandLine(ctx context.Context, name string) ([]string, error)
}

// EnginePrograms are what the container engines' own programs say.
type EnginePrograms interface {
	// ContainerdVersion is such as "1.6.20"; *CommandError if it is not installed.
	ContainerdVersion(ctx context.Context) (string, error)
	// ValidateDocker has dockerd look at the content of a daemon.json, and returns an
	// error with its words where it does not take it. It is nil if dockerd cannot
	// do that (before 23.0) or is not installed.
	ValidateDocker(ctx context.Context, daemonJSON []byte) error
}

// Proxy is for downloads; it may hold credentials.
type Proxy struct{ HTTP, HTTPS, NoProxy string }

// Software is a need, for which each distribution has its package.
type Software string

// What the roles need.
const (
	Ext4Tools       Software = "ext4 tools"
	NFSServer       Software = "NFS server"
	NFSClient       Software = "NFS client"
	ContainerEngine Software = "container engine"
)

// Packages is the distribution's package manager.
type Packages interface {
	// Missing is what of this is not installed completely.
	Missing(ctx context.Context, needs ...Software) ([]Software, error)
	// Install installs what is missing. Errors: *BusyError if another process has
	// the package manager, *UnavailableError if the package cannot be had.
	Install(ctx context.Context, proxy Proxy, needs ...Software) error
	// Name is the package that meets the need on this distribution.
	Name(need Software) string
}

// Export is a directory that is exported to a client, with its options as
// exportfs prints them.
type Export struct {
	Directory, Client string
	Options           []string
}

// NFS is the kernel's NFS server, as exportfs(8) sees it.
type NFS interface {
	// Exported is what the server's table holds.
	Exported(ctx context.Context) ([]Export, error)
	// Reexport makes the table what the files say.
	Reexport(ctx context.Context) error
	// Withdraw takes one entry out of the table.
	Withdraw(ctx context.Context, directory, client string) error
	// Flush makes the kernel forget what it has looked up. It does nothing where
	// there is no NFS server yet.
	Flush(ctx context.Context) error
	// SameHost says whether two names, or a name and an address, are one host.
	SameHost(ctx context.Context, a, b string) bool
}
