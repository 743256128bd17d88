package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/netns"
)

// undo takes one thing away. A thing that is gone already is no error.
func (e entry) undo() error {
	switch e.Kind {
	case kindProcess:
		return e.Process.end(e.Signal)
	case kindMount:
		return unmount(e.Name)
	case kindLoop:
		return detachLoop(e.Name, e.Backing)
	case kindCgroup:
		return removeCgroup(e.Name)
	case kindNetns:
		return removeNetns(e.Name)
	case kindFile:
		return os.RemoveAll(e.Name)
	}
	return fmt.Errorf("the ledger names a %q, which this version does not know how to remove: %s", e.Kind, e.Name)
}

func unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // not a mount point
	}
	if err != nil {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	return nil
}

// attachLoop puts a free loop device over a file.
func attachLoop(path string) (device string, err error) {
	out, err := hostCommand("losetup", "--find", "--show", "--", path).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("a loop device for %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// detachLoop frees a loop device if it still is the one that was set up for
// this file: another process may have the number by now.
func detachLoop(device, backing string) error {
	if loopBacking(device) != backing {
		return nil
	}
	if err := run("losetup", "--detach", device); err != nil {
		return err
	}
	// The kernel postpones the detach of a device in use: for a moment if the host's udev
	// reads it, for seconds on a busy host if the container that is being killed had it
	// mounted.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if until(ctx, 10*time.Millisecond, func() (bool, error) { return loopBacking(device) != backing, nil }) != nil {
		return fmt.Errorf("loop device %s (%s) is still in use", device, backing)
	}
	return nil
}

func loopBacking(device string) string {
	data, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/loop/backing_file")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), " (deleted)")
}

// removeCgroup removes a group with all that a systemd inside left below it,
// the deepest first: a group with children cannot go.
func removeCgroup(path string) error {
	var groups []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			groups = append(groups, p)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing control group: %w", err)
	}
	for _, g := range slices.Backward(groups) {
		if err := removeGroup(g); err != nil {
			return fmt.Errorf("removing control group: %w", err)
		}
	}
	return nil
}

// removeGroup waits for a process that is ending: it is as good as dead when its first
// thread is, but the others keep the group.
func removeGroup(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	_ = until(ctx, 5*time.Millisecond, func() (bool, error) { // what went wrong is in err
		err = os.Remove(path)
		return !errors.Is(err, syscall.EBUSY), nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func removeNetns(name string) error {
	if _, err := os.Stat(netns.Path(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return run("ip", "netns", "delete", name)
}

// endMembers ends what still runs in a lab's network namespace: commands that
// a test started there and did not stop. The kernel says what is in the namespace, so no
// other process can be among them.
func endMembers(ns string) error {
	if _, err := os.Stat(netns.Path(ns)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out, err := hostCommand("ip", "netns", "pids", ns).Output()
	if err != nil {
		return fmt.Errorf("listing the processes of network namespace %s: %w", ns, err)
	}
	var errs []error
	for _, field := range bytes.Fields(out) {
		pid, err := strconv.Atoi(string(field))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, err := identify(pid); err == nil {
			errs = append(errs, p.end(syscall.SIGTERM))
		}
	}
	return errors.Join(errs...)
}

// hostCommand is a short command that always runs to its end, because half of a network,
// or of what Close has to do, is of no use.
func hostCommand(argv ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), argv[0], argv[1:]...)
}

// run executes a command of the host; the error carries what it printed.
func run(argv ...string) error {
	out, err := hostCommand(argv...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
