package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/shared/durable"
)

type directories struct {
	changes *Changes
	log     *slog.Logger

	mu sync.Mutex
	// unguardable are the directories that cannot be made immutable because a capability is
	// missing; the agent does not try that again on every pass.
	unguardable map[string]bool
}

func (d *directories) Inspect(path string) (Directory, error) {
	real, err := realPath(path)
	if err != nil {
		return Directory{}, fmt.Errorf("inspecting %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Directory{Real: real}, nil
	case errors.Is(err, syscall.ENOTDIR):
		return Directory{Exists: true, NotDirectory: "a path below a file", Real: real}, nil
	case err != nil:
		return Directory{}, fmt.Errorf("inspecting %s: %w", path, err)
	case !info.IsDir():
		return Directory{Exists: true, NotDirectory: kind(info.Mode()), Real: real}, nil
	}
	found := Directory{Exists: true, Real: real, Mode: info.Mode().Perm()}
	f, err := os.Open(path)
	if err != nil {
		return Directory{}, fmt.Errorf("inspecting %s: %w", path, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return Directory{}, fmt.Errorf("inspecting %s: %w", path, err)
	}
	if len(names) > 0 {
		found.Entry = names[0]
	}
	found.Guarded = found.Mode == 0 && (immutable(f) || d.isUnguardable(path))
	return found, nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsRegular():
		return "a file"
	default:
		return "a special file"
	}
}

// realPath resolves the symbolic links in the part of path that exists.
func realPath(path string) (string, error) {
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || at == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

func (d *directories) Guard(path string) error {
	d.changes.Directory()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the mount point %s: %w", path, err)
	}
	if err := os.Mkdir(path, 0); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the mount point %s: %w", path, err)
	}
	f, err := openDirectory(path)
	if err != nil {
		return fmt.Errorf("guarding the mount point %s: %w", path, err)
	}
	defer f.Close()
	if immutable(f) {
		if err := setImmutable(f, false); err != nil {
			return fmt.Errorf("guarding the mount point %s: %w", path, err)
		}
	}
	if err := f.Chmod(0); err != nil {
		return fmt.Errorf("guarding the mount point %s: %w", path, err)
	}
	if err := setImmutable(f, true); err != nil {
		d.mu.Lock()
		d.unguardable[path] = true
		d.mu.Unlock()
		d.log.Warn("the mount point is guarded by its mode alone, which root can ignore: it cannot be made immutable here",
			"path", path, "error", err)
	}
	return f.Sync()
}

func (d *directories) isUnguardable(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unguardable[path]
}

func (d *directories) Unguard(path string, mode fs.FileMode, remove bool) error {
	f, err := openDirectory(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lifting the guard of %s: %w", path, err)
	}
	defer f.Close()
	d.changes.Directory()
	if immutable(f) {
		if err := setImmutable(f, false); err != nil {
			return fmt.Errorf("lifting the guard of %s: %w", path, err)
		}
	}
	if err := f.Chmod(mode.Perm()); err != nil {
		return fmt.Errorf("lifting the guard of %s: %w", path, err)
	}
	if !remove {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("removing the mount point %s: %w", path, err)
	}
	return nil
}

func (d *directories) Make(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	d.changes.Directory()
	above := filepath.Dir(path)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return fmt.Errorf("making the directory %s: %w", path, err)
	}
	if err := os.Mkdir(path, mode); err != nil {
		return fmt.Errorf("making the directory %s: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil { // the umask may have reduced it
		return fmt.Errorf("making the directory %s: %w", path, err)
	}
	return durable.Directory(above)
}

// openDirectory opens a directory; it fails if the last part of path is a symbolic link.
func openDirectory(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|os.O_RDONLY, 0)
}

// immutableFlag is FS_IMMUTABLE_FL of linux/fs.h, which x/sys does not name.
const immutableFlag = 0x10

func immutable(f *os.File) bool {
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&immutableFlag != 0
}

func setImmutable(f *os.File, on bool) error {
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= immutableFlag
	if on {
		flags |= immutableFlag
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}

// parts are the components of a relative path; "." has none.
func parts(rel string) []string {
	if rel == "." || rel == "" {
		return nil
	}
	return strings.Split(rel, "/")
}
