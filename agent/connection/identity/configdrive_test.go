package identity

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A real block device with a real filesystem, because the test is about the mount.
func TestConfigDriveIsReadWithoutLeavingAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if _, err := os.Stat("/dev/loop-control"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs loop devices: there is no /dev/loop-control")
	}
	const id = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	tree := filepath.Join(t.TempDir(), filepath.Dir(metadataOnDrive))
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "meta_data.json"), []byte(`{"uuid":"`+id+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "drive")
	run(t, "mke2fs", "-q", "-t", "ext4", "-L", "config-2", "-d", filepath.Dir(filepath.Dir(tree)), image, "1M")
	device := strings.TrimSpace(run(t, "losetup", "--find", "--show", "--read-only", image))
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	got, err := readDrive(device, []string{"iso9660", "ext4"})
	if err != nil || got != id {
		t.Errorf("got %q, %v", got, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(" "+device+" ")) {
		t.Errorf("the mount is seen outside, %v", err)
	}
	if _, err := readDrive(device, []string{"xfs"}); err == nil {
		t.Error("no error for a filesystem that is none")
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}
