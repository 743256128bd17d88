package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func (d *directories) InspectInside(root string, device Number, rel string) (Shared, error) {
	dir, err := enter(root, device)
	if err != nil {
		return Shared{}, err
	}
	defer dir.Close()
	for _, name := range parts(rel) {
		next, err := step(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return Shared{}, nil
		}
		if err != nil {
			return Shared{}, refusal(root, rel, err)
		}
		dir.Close() // read only
		dir = next
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return Shared{}, refusal(root, rel, err)
	}
	return Shared{Exists: true, UID: int(st.Uid), GID: int(st.Gid), Mode: fs.FileMode(st.Mode & 0o777)}, nil
}

func (d *directories) MakeInside(root string, device Number, rel string, want Shared) error {
	dir, made, err := d.make(root, device, rel, func(*os.File) error { return nil })
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return refusal(root, rel, err)
	}
	mode := info.Mode().Perm() | want.Mode
	if made {
		mode = want.Mode
	}
	if err := errors.Join(dir.Chown(want.UID, want.GID), dir.Chmod(mode), dir.Sync()); err != nil {
		return refusal(root, rel, err)
	}
	return nil
}

func (d *directories) MakePrivate(root string, device Number, rel string) error {
	dir, _, err := d.make(root, device, rel, private)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := errors.Join(dir.Chmod(0o700), dir.Sync()); err != nil {
		return refusal(root, rel, err)
	}
	return nil
}

// make opens the directory rel, and makes it and those on the way. It calls check for root and
// each of them. made says that the last one is new.
func (d *directories) make(root string, device Number, rel string, check func(*os.File) error) (dir *os.File, made bool, err error) {
	dir, err = enter(root, device)
	if err != nil {
		return nil, false, err
	}
	d.changes.Directory()
	err = check(dir)
	for _, name := range parts(rel) {
		if err != nil {
			break
		}
		var next *os.File
		next, err = step(dir, name)
		if made = errors.Is(err, fs.ErrNotExist); made {
			if err = unix.Mkdirat(int(dir.Fd()), name, 0o755); err == nil {
				next, err = step(dir, name)
			}
			if err == nil {
				err = dir.Sync()
			}
		}
		if err == nil {
			dir.Close() // read only
			dir = next
			err = check(dir)
		}
	}
	if err != nil {
		dir.Close()
		return nil, false, refusal(root, rel, err)
	}
	return dir, made, nil
}

// private reports a directory in which another user than root can replace something.
func private(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if st.Uid == 0 && st.Mode&0o022 == 0 {
		return nil
	}
	return &PathError{Path: dir.Name(), Problem: fmt.Sprintf(
		"belongs to the user %d and has the mode %04o, expected that root alone can write to it: look at what is in it, then `chown root: %[3]s` and `chmod go-w %[3]s`",
		st.Uid, st.Mode&0o7777, dir.Name())}
}

// enter opens the directory root, on which the filesystem of device must be mounted.
func enter(root string, device Number) (*os.File, error) {
	dir, err := openDirectory(root)
	if err != nil {
		return nil, fmt.Errorf("entering %s: %w", root, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return nil, fmt.Errorf("entering %s: %w", root, err)
	}
	if found := number(st.Dev); found != device {
		dir.Close()
		return nil, fmt.Errorf("entering %s: the filesystem there is on the device %s, not on %s", root, found, device)
	}
	return dir, nil
}

// step enters the directory name below dir. It follows neither a symbolic link nor a mount:
// a client that writes to the volume could put a link there to lead the agent elsewhere.
func step(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_RDONLY | unix.O_NOFOLLOW
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Linux before 5.6, or a sandbox that does not know the call.
		fd, err = stepWithoutOpenat2(dir, name, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

// stepWithoutOpenat2 is step for kernels without openat2. A single name, opened without
// following links, cannot lead up or through a link; another filesystem has another device.
func stepWithoutOpenat2(dir *os.File, name string, flags int) (int, error) {
	if name == ".." {
		return -1, unix.EXDEV
	}
	var above, st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, unix.ELOOP
	}
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(unix.Fstat(int(dir.Fd()), &above), unix.Fstat(fd, &st))
	if err == nil && above.Dev != st.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func refusal(root, rel string, err error) error {
	path := filepath.Join(root, rel)
	var refused *PathError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, unix.ELOOP):
		return &PathError{Path: path, Problem: "leads through a symbolic link, which is not followed: remove the link"}
	case errors.Is(err, unix.ENOTDIR):
		return &PathError{Path: path, Problem: "leads through something that is not a directory: move it away"}
	case errors.Is(err, unix.EXDEV):
		return &PathError{Path: path, Problem: "leads into another filesystem that is mounted below the volume: unmount it"}
	}
	return fmt.Errorf("directory %s: %w", path, err)
}

// PathError says why a directory inside a volume cannot be what it should be.
type PathError struct{ Path, Problem string }

func (e *PathError) Error() string { return e.Path + " " + e.Problem }

func number(dev uint64) Number { return Number{unix.Major(dev), unix.Minor(dev)} }
