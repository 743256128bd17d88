package controllerfault

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// disk is an ext4 filesystem of its own, mounted where only the controller and the
// test see it: in a mount namespace that lives as long as the holder does.
type disk struct {
	t      *testing.T
	image  string
	mount  string
	holder int
}

func newDisk(t *testing.T, mebibytes int64) *disk {
	t.Helper()
	loopback.RequireRoot(t)
	dir := t.TempDir()
	d := &disk{t: t, image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, mebibytes<<20); err != nil {
		t.Fatal(err)
	}
	d.run("mkfs.ext4", "-q", "-m", "0", "-E", "root_owner=0:0", d.image)
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	holder := exec.CommandContext(context.WithoutCancel(t.Context()), "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	d.holder = holder.Process.Pid
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait() // killed
	})
	d.attach()
	if err := os.Chmod(d.seen(), 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

// options are those of a controller whose data is on the disk.
func (d *disk) options() loopback.Options {
	return loopback.Options{Wrap: d.inside(), Settings: map[string]string{"dataDirectory": d.mount}}
}

func (d *disk) inside(argv ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", d.holder), "--"}, argv...)
}

// seen is the path at which the test sees the mounted disk.
func (d *disk) seen() string { return fmt.Sprintf("/proc/%d/root%s", d.holder, d.mount) }

func (d *disk) attach() { d.run(d.inside("mount", "-o", "loop", d.image, d.mount)...) }

// replug is what is left on the disk after its power was cut, mounted again.
func (d *disk) replug() {
	d.run(d.inside("umount", d.mount)...)
	d.attach()
}

// cut cuts the power of the disk: what was not synced is lost, and nothing is read
// or written any more.
func (d *disk) cut() {
	d.t.Helper()
	const shutdown, withoutLog = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN of the kernel
	f, err := os.Open(d.seen())
	if err != nil {
		d.t.Error(err)
		return
	}
	defer f.Close()
	flags := uint32(withoutLog)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		d.t.Errorf("shutting the filesystem down: %v", errno)
	}
}

func (d *disk) ballast() string { return filepath.Join(d.seen(), "ballast") }

// fill leaves no byte free.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.Create(d.ballast())
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if n, err := f.Write(chunk); err != nil {
			chunk = chunk[:n/2]
			if n == 0 {
				break
			}
		}
	}
	if err := f.Sync(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) run(argv ...string) {
	d.t.Helper()
	if out, err := exec.CommandContext(d.t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		d.t.Fatalf("%q: %v: %s", argv, err, out)
	}
}
