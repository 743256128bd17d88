package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const volumeID = "4a0d9f3e-1b2c-4d5e-8f60-718293a4b5c6"

func needsRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for " + why)
	}
}

// kernel is a sysfs with these disks, and nodes for them. Their numbers are not those of
// real devices: the tests never open them.
type kernel struct {
	t     *testing.T
	paths Paths
}

func newKernel(t *testing.T) *kernel {
	needsRoot(t, "device nodes")
	root := t.TempDir()
	k := &kernel{t, Paths{ByID: filepath.Join(root, "by-id"), Dev: filepath.Join(root, "dev"), Sys: filepath.Join(root, "sys"), Proc: "/proc"}}
	for _, dir := range []string{k.paths.ByID, k.paths.Dev, filepath.Join(k.paths.Sys, "class/block"), filepath.Join(k.paths.Sys, "dev/block")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// disk adds one; files are its further attributes.
func (k *kernel) disk(name, number string, minor uint32, files map[string]string) {
	k.t.Helper()
	all := map[string]string{"dev": number + "\n", "size": "2097152\n", "diskseq": "7\n"}
	for path, text := range files {
		all[path] = text
	}
	for path, text := range all {
		path = filepath.Join(k.paths.Sys, "class/block", name, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			k.t.Fatal(err)
		}
	}
	err := errors.Join(
		os.Symlink("../../class/block/"+name, filepath.Join(k.paths.Sys, "dev/block", number)),
		unix.Mknod(filepath.Join(k.paths.Dev, name), unix.S_IFBLK|0o600, int(unix.Mkdev(252, minor))),
	)
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) link(name, disk string) {
	k.t.Helper()
	if err := os.Symlink(filepath.Join(k.paths.Dev, disk), filepath.Join(k.paths.ByID, name)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) find() []string {
	k.t.Helper()
	found, err := LinuxAt(k.paths, nil).Disks.ByVolumeID(volumeID)
	if err != nil {
		k.t.Fatal(err)
	}
	var names []string
	for _, d := range found {
		if d.Size != 1<<30 || d.Sequence != 7 {
			k.t.Errorf("disk %+v", d)
		}
		names = append(names, filepath.Base(d.Path)+" "+filepath.Base(d.Node))
	}
	return names
}

func TestByVolumeID(t *testing.T) {
	cases := map[string]struct {
		build func(*kernel)
		want  []string
	}{
		"no disk": {func(*kernel) {}, nil},
		"virtio": {func(k *kernel) {
			k.disk("vda", "252:0", 0, nil)
			k.disk("vdb", "252:16", 16, map[string]string{"serial": volumeID[:20]})
			k.link("virtio-"+volumeID[:20], "vdb")
		}, []string{"virtio-4a0d9f3e-1b2c-4d5e-8 vdb"}},
		"virtio, the whole id": {func(k *kernel) {
			k.disk("vdb", "252:16", 16, nil)
			k.link("virtio-"+volumeID, "vdb")
		}, []string{"virtio-" + volumeID + " vdb"}},
		"SCSI": {func(k *kernel) {
			k.disk("sdb", "252:16", 16, map[string]string{"device/vpd_pg80": "\x00\x80\x00\x24" + volumeID})
			k.link("scsi-0QEMU_QEMU_HARDDISK_"+volumeID, "sdb")
		}, []string{"scsi-0QEMU_QEMU_HARDDISK_" + volumeID + " sdb"}},
		"several links to one disk": {func(k *kernel) {
			k.disk("vdb", "252:16", 16, nil)
			k.link("virtio-"+volumeID[:20], "vdb")
			k.link("virtio-"+volumeID, "vdb")
			k.link("scsi-0QEMU_QEMU_HARDDISK_"+volumeID[:20], "vdb")
		}, []string{"virtio-4a0d9f3e-1b2c-4d5e-8 vdb"}},
		"links to two disks": {func(k *kernel) {
			k.disk("vdb", "252:16", 16, nil)
			k.disk("sdb", "252:32", 32, nil)
			k.link("virtio-"+volumeID[:20], "vdb")
			k.link("scsi-0QEMU_QEMU_HARDDISK_"+volumeID, "sdb")
		}, []string{"virtio-4a0d9f3e-1b2c-4d5e-8 vdb", "scsi-0QEMU_QEMU_HARDDISK_" + volumeID + " sdb"}},
		"two disks with one serial, for which udev makes one link": {func(k *kernel) {
			k.disk("vdb", "252:16", 16, map[string]string{"serial": volumeID[:20]})
			k.disk("vdc", "252:32", 32, map[string]string{"serial": volumeID[:20]})
			k.link("virtio-"+volumeID[:20], "vdc")
		}, []string{"virtio-4a0d9f3e-1b2c-4d5e-8 vdc", "vdb vdb"}},
		"a disk whose link is not made yet": {func(k *kernel) {
			k.disk("vdb", "252:16", 16, map[string]string{"serial": volumeID[:20]})
		}, nil},
		"a link whose disk is gone": {func(k *kernel) { k.link("virtio-"+volumeID[:20], "vdb") }, nil},
		"a node that the kernel no longer has": {func(k *kernel) {
			k.disk("vdb", "252:16", 16, nil)
			k.link("virtio-"+volumeID[:20], "vdb")
			if err := os.Remove(filepath.Join(k.paths.Sys, "dev/block/252:16")); err != nil {
				k.t.Fatal(err)
			}
		}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			c.build(k)
			if got := k.find(); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a link to a file", func(t *testing.T) {
		k := newKernel(t)
		k.link("virtio-"+volumeID, "file")
		if err := os.WriteFile(filepath.Join(k.paths.Dev, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LinuxAt(k.paths, nil).Disks.ByVolumeID(volumeID); err == nil || !strings.Contains(err.Error(), "not a block device") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAllLeavesOutWhatHoldsNoFilesystem(t *testing.T) {
	k := newKernel(t)
	for i, name := range []string{"vda", "sr0", "fd0", "ram0", "zram0", "loop0", "sda1", "srv"} {
		k.disk(name, "252:"+string(rune('0'+i)), uint32(i), nil)
	}
	k.disk("loop1", "252:9", 9, map[string]string{"size": "0\n"})
	all, err := LinuxAt(k.paths, nil).Disks.All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all {
		names = append(names, filepath.Base(d.Node))
	}
	if want := []string{"loop0", "sda1", "srv", "vda"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestUse(t *testing.T) {
	k := newKernel(t)
	k.disk("vdb", "252:16", 16, map[string]string{"vdb1/partition": "1\n", "vdb2/partition": "2\n", "queue/depth": "1\n", "holders/dm-3/dev": "x"})
	h := LinuxAt(k.paths, nil)
	use, err := h.Disks.Use(Disk{Path: "x", Number: Number{252, 16}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(use.Partitions, []string{"vdb1", "vdb2"}) || !slices.Equal(use.Holders, []string{"dm-3"}) || use.Swap || len(use.Mounts) != 0 {
		t.Errorf("got %+v", use)
	}
	if _, err := h.Disks.Use(Disk{Path: "x", Number: Number{252, 99}}); err == nil {
		t.Error("a disk that is gone has a use, want an error")
	}
}

// The device of a command is the open disk, even if its names now lead elsewhere.
func TestCommandsGetTheOpenDisk(t *testing.T) {
	needsRoot(t, "loop devices")
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device to be had: %s", out)
	}
	node := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "losetup", "-d", node).Run() })
	if err := exec.CommandContext(t.Context(), "mkswap", node).Run(); err != nil {
		t.Skip("needs mkswap")
	}
	paths := MachinePaths
	paths.ByID = t.TempDir()
	link := filepath.Join(paths.ByID, "virtio-"+volumeID)
	if err := os.Symlink(node, link); err != nil {
		t.Fatal(err)
	}
	h := LinuxAt(paths, nil)
	found, err := h.Disks.ByVolumeID(volumeID)
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	d, err := h.Disks.Open(found[0], true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	tags, err := h.Disks.Identify(t.Context(), d)
	if err != nil || tags["TYPE"] != "swap" {
		t.Errorf("blkid: %v, %v", tags, err)
	}
	signatures, err := h.Disks.Signatures(t.Context(), d)
	if err != nil || len(signatures) == 0 || !strings.HasPrefix(signatures[0], "swap at ") {
		t.Errorf("wipefs: %q, %v", signatures, err)
	}
	if err := h.Disks.MakeExt4(t.Context(), d, "d229a14c-61e3-4367-8940-de7654ba0dcf"); err == nil {
		t.Error("formatted although its name is gone")
	}
	var inUse *InUseError
	if _, err := h.Disks.Open(found[0], true); !errors.As(err, &inUse) {
		t.Errorf("claimed twice: %v", err)
	}
}
