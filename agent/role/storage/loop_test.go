package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// These tests are on real block devices: files behind loop devices, with links to
// them as udev would make them.

const (
	testVolume  = "4a0d9f3e-1b2c-4d5e-8f60-718293a4b5c6"
	testVolume2 = "9b1e0c7d-2a3b-4c5d-9e6f-8091a2b3c4d5"
	mib         = 1 << 20
)

var testUUID = api.FilesystemUUID(testVolume)

// needs skips if this machine cannot run the test, and says why.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for loop devices")
	}
	for _, program := range append([]string{"losetup", "mkfs.ext4", "e2fsck", "blkid", "wipefs"}, programs...) {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s, which is not installed", program)
		}
	}
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.Background(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// loop is a disk of this machine.
type loop struct {
	image, node string
	size        int64
	holder      *os.File
}

func newLoop(t *testing.T, size int64) *loop {
	t.Helper()
	l := &loop{image: filepath.Join(t.TempDir(), "disk"), size: size}
	f, err := os.Create(l.image)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", l.image).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device to be had: %s", out)
	}
	l.node = strings.TrimSpace(string(out))
	// Detached while open, it lasts until it is closed: the kernel cleans up even after a
	// test that is killed.
	if l.holder, err = os.Open(l.node); err != nil {
		t.Fatal(err)
	}
	run(t, "losetup", "-d", l.node)
	t.Cleanup(l.detach)
	return l
}

// detach removes the disk from the machine; another disk may get its node then.
func (l *loop) detach() { l.holder.Close() }

func (l *loop) write(t *testing.T, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(l.node, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// hash covers everything that was written to it, and where.
func (l *loop) hash(t *testing.T) [32]byte {
	t.Helper()
	run(t, "blockdev", "--flushbufs", l.node)
	f, err := os.Open(l.image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	block := make([]byte, mib)
	for at := int64(0); at < l.size; at += mib {
		if at, err = f.Seek(at, unix.SEEK_DATA); err != nil {
			break // only holes from here on
		}
		at &^= mib - 1
		b := block[:min(mib, l.size-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(b, []byte{0}) < len(b) { // zeros are as good as a hole
			fmt.Fprintf(h, "%d:", at)
			h.Write(b)
		}
	}
	return [32]byte(h.Sum(nil))
}

// attached is the machine with these disks attached as these volumes.
func attached(t *testing.T, disks map[string]*loop) *host.Host {
	t.Helper()
	paths := host.MachinePaths
	paths.ByID = t.TempDir()
	paths.UdevControl = filepath.Join(paths.ByID, "no udev")
	for id, l := range disks {
		if err := os.Symlink(l.node, filepath.Join(paths.ByID, "virtio-"+id[:20])); err != nil {
			t.Fatal(err)
		}
	}
	return host.LinuxAt(paths, nil)
}

func diskOf(t *testing.T, h *host.Host, id string) host.Disk {
	t.Helper()
	found, err := h.Disks.ByVolumeID(id)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	return found[0]
}

// TestInspectDisk makes each kind of content, inspects, and wants every byte as it was.
func TestInspectDisk(t *testing.T) {
	needs(t)
	const size = 320 * mib
	sh := func(argv ...string) func(*testing.T, *loop) {
		return func(t *testing.T, l *loop) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skipf("needs %s, which is not installed", argv[0])
			}
			args := append([]string{}, argv...)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "DISK", l.node)
			}
			run(t, args...)
		}
	}
	bytesAt := func(at int64, b ...byte) func(*testing.T, *loop) {
		return func(t *testing.T, l *loop) { l.write(t, at, b) }
	}
	cases := map[string]struct {
		found func(*testing.T, *loop)
		kind  kind
		words string
	}{
		"blank":         {func(*testing.T, *loop) {}, blank, ""},
		"ours":          {sh("mkfs.ext4", "-q", "-U", testUUID, "DISK"), ours, ""},
		"ours, as ext3": {sh("mkfs.ext3", "-q", "-U", testUUID, "DISK"), foreign, "ext3"},
		"ours, superblock damaged": {func(t *testing.T, l *loop) {
			run(t, "mkfs.ext4", "-q", "-U", testUUID, l.node)
			l.write(t, 1024+0x2c, []byte{1}) // its checksum is wrong now
		}, foreign, "is damaged"},
		"foreign ext4": {sh("mkfs.ext4", "-q", "DISK"), foreign, "type ext4"},
		"foreign ext4, superblock damaged": {func(t *testing.T, l *loop) {
			run(t, "mkfs.ext4", "-q", l.node)
			l.write(t, 1024+0x2c, []byte{1})
		}, foreign, "damaged"},
		"foreign ext4, superblock gone": {func(t *testing.T, l *loop) {
			run(t, "mkfs.ext4", "-q", "-U", "11111111-2222-4333-8444-555555555555", l.node)
			l.write(t, 0, make([]byte, 4096))
		}, foreign, "11111111-2222-4333-8444-555555555555"},
		"foreign ext4, all but a copy gone": {func(t *testing.T, l *loop) {
			run(t, "mkfs.ext4", "-q", "-b", "4096", l.node)
			backup := make([]byte, 4096)
			f, err := os.Open(l.node)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.ReadAt(backup, 32768*4096); err != nil {
				t.Fatal(err)
			}
			run(t, "dd", "if=/dev/zero", "of="+l.node, "bs=1M", "count=320", "conv=fsync", "status=none")
			l.write(t, 32768*4096, backup)
		}, foreign, "copy at byte 134217728"},
		"xfs":   {sh("mkfs.xfs", "-q", "DISK"), foreign, "type xfs"},
		"btrfs": {sh("mkfs.btrfs", "-q", "DISK"), foreign, "type btrfs"},
		"vfat":  {sh("mkfs.vfat", "DISK"), foreign, "type vfat"},
		"swap":  {sh("mkswap", "-q", "DISK"), foreign, "type swap"},
		"GPT":   {sh("sgdisk", "-n", "1:0:0", "DISK"), foreign, "partition table (gpt)"},
		"GPT, first table gone": {func(t *testing.T, l *loop) {
			sh("sgdisk", "-n", "1:0:0", "DISK")(t, l)
			l.write(t, 0, make([]byte, 34*512))
		}, foreign, ""},
		"MBR":  {bytesAt(446, append([]byte{0, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0}, append(make([]byte, 48), 0x55, 0xaa)...)...), foreign, "partition table (dos)"},
		"LVM":  {lvmLabel, foreign, "LVM2_member"},
		"LUKS": {bytesAt(0, append([]byte("LUKS\xba\xbe\x00\x01aes"), make([]byte, 200)...)...), foreign, "crypto_LUKS"},
		"md":   {mdSuperblock, foreign, "linux_raid_member"},
		"random": {func(t *testing.T, l *loop) {
			run(t, "dd", "if=/dev/urandom", "of="+l.node, "bs=1M", "count=1", "seek=20", "conv=fsync", "status=none")
		}, foreign, "data without a signature"},
		"first byte":                    {bytesAt(0, 1), foreign, "byte 0 is 0x01"},
		"last byte":                     {bytesAt(size-1, 1), foreign, "byte 335544319"},
		"the last byte of the head":     {bytesAt(edge-1, 0x80), foreign, "byte 8388607 is 0x80"},
		"the first byte of the tail":    {bytesAt(size-edge, 0x80), foreign, "byte 327155712"},
		"a copy of a superblock, 1 KiB": {bytesAt(8193*1024+56, 0x53), foreign, ""},
		"a copy of a superblock, 4 KiB": {bytesAt(32768*4096+56, 0x53), foreign, ""},
		"a sample":                      {bytesAt(size/1024*700+16383, 1), foreign, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, size)
			c.found(t, l)
			h := attached(t, map[string]*loop{testVolume: l})
			before := l.hash(t)
			got := inspect(t.Context(), h.Disks, diskOf(t, h, testVolume), testUUID, unknown)
			if got.kind != c.kind || !strings.Contains(got.what, c.words) {
				t.Errorf("found %d, %q; want %d, %q", got.kind, got.what, c.kind, c.words)
			}
			if l.hash(t) != before {
				t.Error("looking has changed the disk")
			}
			if !h.Changes.Count().None() {
				t.Errorf("looking has changed %s", h.Changes.Count())
			}
			t.Logf("%s: %s (%d bytes read in %d places)", name, got.what, got.blankCheck.BytesRead, got.blankCheck.Samples)
		})
	}
}

// lvmLabel writes a physical volume's label (lvm2, lib/format_text/layout.h), with
// its checksum.
func lvmLabel(t *testing.T, l *loop) {
	sector := make([]byte, 512)
	copy(sector, "LABELONE")
	sector[8] = 1   // its own sector
	sector[20] = 32 // where its content begins
	copy(sector[24:], "LVM2 001")
	copy(sector[32:], "0123456789abcdefghijklmnopqrstuv")
	crc := uint32(0xf597a6cf)
	for _, b := range sector[20:] {
		crc ^= uint32(b)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0xedb88320
			} else {
				crc >>= 1
			}
		}
	}
	for i := range 4 {
		sector[16+i] = byte(crc >> (8 * i))
	}
	l.write(t, 512, sector)
}

// mdSuperblock writes a version 1.2 superblock (linux/raid/md_p.h).
func mdSuperblock(t *testing.T, l *loop) {
	sb := make([]byte, 512)
	copy(sb, []byte{0xfc, 0x4e, 0x2b, 0xa9, 1})
	copy(sb[16:], "0123456789abcdef")
	sb[0x90] = 8 // super_offset in sectors
	l.write(t, 4096, sb)
}

func TestInspectWhileInUse(t *testing.T) {
	needs(t)
	t.Run("mounted", func(t *testing.T) {
		l, dir := newLoop(t, 100*mib), t.TempDir()
		run(t, "mkfs.ext4", "-q", l.node)
		mountLoop(t, l, dir)
		h := attached(t, map[string]*loop{testVolume: l})
		got := inspect(t.Context(), h.Disks, diskOf(t, h, testVolume), testUUID, unknown)
		if got.kind != foreign || !strings.Contains(got.what, "mounted at "+dir) {
			t.Errorf("found %d, %q", got.kind, got.what)
		}
	})
	t.Run("claimed", func(t *testing.T) {
		l := newLoop(t, 100*mib)
		claim(t, l)
		h := attached(t, map[string]*loop{testVolume: l})
		if got := inspect(t.Context(), h.Disks, diskOf(t, h, testVolume), testUUID, unknown); got.kind != unknown {
			t.Errorf("found %d, %q; want it to be unknown", got.kind, got.what)
		}
	})
	// A program that repairs a disk claims it. An inspection that also claimed it would
	// fail, and would make the repair fail.
	t.Run("repaired", func(t *testing.T) {
		l := newLoop(t, 100*mib)
		l.write(t, 1*mib, []byte("data"))
		claim(t, l)
		h := attached(t, map[string]*loop{testVolume: l})
		if got := inspect(t.Context(), h.Disks, diskOf(t, h, testVolume), testUUID, unknown); got.kind != foreign {
			t.Errorf("found %d, %q; want foreign data, without a claim to the disk", got.kind, got.what)
		}
	})
	t.Run("partitions", func(t *testing.T) {
		// The kernel has a partition, but there is no partition table.
		needs(t, "addpart")
		l := newLoop(t, 100*mib)
		run(t, "addpart", l.node, "1", "2048", "2048")
		t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "delpart", l.node, "1").Run() })
		h := attached(t, map[string]*loop{testVolume: l})
		if got := inspect(t.Context(), h.Disks, diskOf(t, h, testVolume), testUUID, unknown); got.kind != foreign || !strings.Contains(got.what, "partitions") {
			t.Errorf("found %d, %q", got.kind, got.what)
		}
	})
}

// claim takes the disk exclusively, as mkfs, e2fsck and a mount do.
func claim(t *testing.T, l *loop) {
	t.Helper()
	fd, err := unix.Open(l.node, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
}

func mountLoop(t *testing.T, l *loop, dir string) {
	t.Helper()
	if err := unix.Mount(l.node, dir, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
}

// The page cache of a block device can contain zeros that the medium no longer has, if
// another host wrote to the volume. Here the file behind the loop device changes
// while the cache is kept by an open reader.
func TestInspectReadsTheMedium(t *testing.T) {
	needs(t)
	l := newLoop(t, 100*mib)
	cached, err := os.Open(l.node)
	if err != nil {
		t.Fatal(err)
	}
	defer cached.Close()
	buffer := make([]byte, 4096)
	if _, err := cached.ReadAt(buffer, 50*mib); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(l.image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("data"), size50); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := cached.ReadAt(buffer, size50); err != nil || !bytes.Equal(buffer[:4], make([]byte, 4)) {
		t.Skipf("the cache is not stale here: %q %v", buffer[:4], err)
	}
	h := attached(t, map[string]*loop{testVolume: l})
	if got := inspect(t.Context(), h.Disks, diskOf(t, h, testVolume), testUUID, unknown); got.kind != foreign {
		t.Errorf("found %d, %q", got.kind, got.what)
	}
}

// writtenMeanwhile is a disk on which mkfs writes the superblock just before a program looks at it.
type writtenMeanwhile struct {
	host.Disks
	program string
	mkfs    func()
}

func (w writtenMeanwhile) Identify(ctx context.Context, d host.Device) (map[string]string, error) {
	if w.program == "blkid" {
		w.mkfs()
	}
	return w.Disks.Identify(ctx, d)
}

func (w writtenMeanwhile) Signatures(ctx context.Context, d host.Device) ([]string, error) {
	if w.program == "wipefs" {
		w.mkfs()
	}
	return w.Disks.Signatures(ctx, d)
}

// The superblock that a mkfs writes after its agent was killed is neither foreign content nor a
// damaged filesystem, also if the agent has first read the disk without it.
func TestInspectWhileMkfsWrites(t *testing.T) {
	needs(t)
	for _, program := range []string{"blkid", "wipefs"} {
		t.Run("before "+program, func(t *testing.T) {
			l := newLoop(t, 70*mib)
			h := attached(t, map[string]*loop{testVolume: l})
			disk := diskOf(t, h, testVolume)
			written := writtenMeanwhile{h.Disks, program, func() { run(t, "mkfs.ext4", "-q", "-F", "-U", testUUID, l.node) }}
			if got := inspect(t.Context(), written, disk, testUUID, unknown); got.kind != unknown || got.adoptable != "" {
				t.Errorf("got %+v", got)
			}
			if got := inspect(t.Context(), h.Disks, disk, testUUID, unknown); got.kind != ours {
				t.Errorf("then got %+v", got)
			}
		})
	}
}

const size50 = 50 * mib

// A disk that is removed or replaced is not the one that was inspected.
func TestSwappedDisk(t *testing.T) {
	needs(t)
	first, second := newLoop(t, 100*mib), newLoop(t, 100*mib)
	h := attached(t, map[string]*loop{testVolume: first})
	disk := diskOf(t, h, testVolume)
	d, err := h.Disks.Open(disk, false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Same(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(disk.Path); err != nil {
		t.Fatal(err)
	}
	if err := d.Same(); err == nil {
		t.Error("the link is gone and the disk is still the same")
	}
	if err := os.Symlink(second.node, disk.Path); err != nil {
		t.Fatal(err)
	}
	var swapped *host.SwappedError
	if err := d.Same(); !errors.As(err, &swapped) {
		t.Errorf("got %v, want a *SwappedError", err)
	}
	before := second.hash(t)
	if err := h.Disks.MakeExt4(context.Background(), d, testUUID); !errors.As(err, &swapped) {
		t.Errorf("got %v, want a *SwappedError", err)
	}
	if second.hash(t) != before {
		t.Error("the other disk was written to")
	}
}

// The kernel gives a new sequence number when another file is put behind a device.
func TestSameNodeWithAnotherDiskBehindIt(t *testing.T) {
	needs(t)
	l := newLoop(t, 100*mib)
	h := attached(t, map[string]*loop{testVolume: l})
	disk := diskOf(t, h, testVolume)
	if disk.Sequence == 0 {
		t.Skip("this kernel has no diskseq")
	}
	l.detach()
	other := filepath.Join(t.TempDir(), "other")
	run(t, "truncate", "-s", "100M", other)
	run(t, "losetup", l.node, other)
	t.Cleanup(func() { run(t, "losetup", "-d", l.node) })
	var swapped *host.SwappedError
	if _, err := h.Disks.Open(disk, false); !errors.As(err, &swapped) {
		t.Errorf("got %v, want a *SwappedError", err)
	}
}
