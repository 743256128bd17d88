package lab_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

func startVM(t *testing.T, l *lab.Lab, s lab.Spec) lab.Node {
	t.Helper()
	var node lab.Node
	step(t, "machine "+s.Name+" up", func(ctx context.Context) (err error) {
		node, err = l.VM(ctx, s)
		return err
	})
	return node
}

func instanceID(t *testing.T, n lab.Node) string {
	t.Helper()
	return execute(t, n, "python3", "-c",
		`import json; print(json.load(open("/run/cloud-init/instance-data.json"))["v1"]["instance_id"])`)
}

// A virtual machine from its kernel on: identity, disk, network, the packages that it can
// install offline, reboot. The test is long; in short runs the demo boots the same way, and
// the cases reboot machines.
func TestVMColdLife(t *testing.T) {
	results.LongOnly(t)
	l := labtest.Open(t, lab.KindVM)
	disk := newDisk(t, l, volumeID)
	node := startVM(t, l, lab.Spec{Name: "storage", ServerID: serverID, UserData: writesAFile, Disks: []lab.Disk{disk}, Cold: true})
	step(t, "cloud-init done", node.WaitCloudInit)
	if got := execute(t, node, "cat", "/root/written"); got != "by cloud-init" {
		t.Errorf("user_data's file holds %q", got)
	}
	if got := execute(t, node, "cat", "/sys/class/dmi/id/product_uuid"); got != serverID {
		t.Errorf("DMI says %s, want %s", got, serverID)
	}
	if got := instanceID(t, node); got != serverID {
		t.Errorf("cloud-init's instance id is %s, want %s", got, serverID)
	}
	if got := execute(t, node, "readlink", "-f", disk.Link()); got != "/dev/vdb" {
		t.Errorf("the volume is %s", got)
	}
	if got := execute(t, node, "systemctl", "is-active", "nfs-server"); got != "active" {
		t.Errorf("nfs-server is %s", got)
	}
	step(t, "reboot", node.Reboot)
	step(t, "cloud-init done again", node.WaitCloudInit)
	if got := execute(t, node, "cat", "/root/ran"); got != "ran" {
		t.Errorf("runcmd of a known instance ran again at reboot: %q", got)
	}
	leavesNothing(t, l)
}

// Two machines out of the snapshot: one serves NFS from its volume, the other
// mounts it. Then the volume moves, as when a server is healed.
func TestVMCopiesShareAndPassOnAVolume(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	disk := newDisk(t, l, volumeID)
	a := startVM(t, l, lab.Spec{Name: "storage", ServerID: serverID, Disks: []lab.Disk{disk}})
	b := startVM(t, l, lab.Spec{Name: "worker"})

	if got := instanceID(t, a); got != serverID {
		t.Errorf("the instance id is %s, want %s", got, serverID)
	}
	for _, file := range []string{"/etc/machine-id", "/etc/hostname", "/proc/sys/kernel/random/uuid"} {
		if execute(t, a, "cat", file) == execute(t, b, "cat", file) {
			t.Errorf("both machines have the same %s", file)
		}
	}
	step(t, "mkfs, export", func(ctx context.Context) error {
		_, err := a.Exec(ctx, "sh", "-euc", `mkfs.ext4 -q "$1"; mkdir -p /volume; mount "$1" /volume
			echo "/volume $2(rw,no_subtree_check,no_root_squash)" >/etc/exports; exportfs -ra`, "sh", disk.Link(), lab.Subnet.String())
		return err
	})
	step(t, "NFS mount and write", func(ctx context.Context) error {
		_, err := b.Exec(ctx, "sh", "-euc", `mount -t nfs4 "$1":/volume /mnt; echo kept >/mnt/file; umount /mnt`, "sh", a.Address().String())
		return err
	})
	// The server holds files open for a moment after the last client has gone.
	execute(t, a, "sh", "-euc", "systemctl stop nfs-server; umount /volume")
	step(t, "detach", func(ctx context.Context) error { return a.Detach(ctx, volumeID) })
	if _, err := a.Exec(t.Context(), "test", "-e", disk.Link()); err == nil {
		t.Error("the link of a detached volume is still there")
	}
	step(t, "attach", func(ctx context.Context) error { return b.Attach(ctx, disk) })
	execute(t, b, "mount", disk.Link(), "/mnt")
	if got := execute(t, b, "cat", "/mnt/file"); got != "kept" {
		t.Errorf("the volume holds %q", got)
	}
	must(t, a.Destroy())
	if _, err := l.VM(t.Context(), lab.Spec{Name: "storage", Address: a.Address()}); err != nil {
		t.Errorf("another machine in the place of a destroyed one: %v", err)
	}
	leavesNothing(t, l)
}

// A power cut loses what the machine has not sent to its disk, and nothing else. The test
// is long; all of e2e/powercut relies on it.
func TestVMPowerCut(t *testing.T) {
	results.LongOnly(t)
	l := labtest.Open(t, lab.KindVM)
	disk := newDisk(t, l, volumeID)
	node := startVM(t, l, lab.Spec{Name: "n", Disks: []lab.Disk{disk}})
	execute(t, node, "sh", "-euc", `mkfs.ext4 -q "$1"; mount -o commit=300 "$1" /mnt; echo synced >/mnt/synced; sync; echo lost >/mnt/lost`, "sh", disk.Link())
	before := disk
	before.Path = filepath.Join(t.TempDir(), "copy.raw")
	must(t, disk.Snapshot(t.Context(), before.Path))

	step(t, "power cut", node.PowerCut)
	step(t, "start", node.Start)
	execute(t, node, "mount", disk.Link(), "/mnt")
	if got := execute(t, node, "ls", "/mnt"); got != "lost+found\nsynced" {
		t.Errorf("the volume holds %q", got)
	}
	execute(t, node, "sh", "-euc", "echo later >/mnt/later; umount /mnt")
	step(t, "stop", node.Stop)
	must(t, node.Detach(t.Context(), volumeID))
	must(t, node.Attach(t.Context(), before))
	step(t, "start", node.Start)
	execute(t, node, "mount", disk.Link(), "/mnt")
	if got := execute(t, node, "ls", "/mnt"); got != "lost+found\nsynced" {
		t.Errorf("the copy of the volume holds %q", got)
	}
}

// A dying disk: the sectors named fail, in the direction named, and no others.
func TestVMDiskFaults(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	node := startVM(t, l, lab.Spec{Name: "n"})
	disk := newDisk(t, l, volumeID)
	disk.Faults = []lab.Fault{{Sector: 2048}, {Sector: 4096, Write: true}}
	step(t, "attach", func(ctx context.Context) error { return node.Attach(ctx, disk) })
	dd := func(args ...string) error {
		_, err := node.Exec(t.Context(), append([]string{"dd", "bs=4096", "count=1", "status=none"}, args...)...)
		return err
	}
	read := func(block string) error { return dd("if="+disk.Link(), "of=/dev/null", "iflag=direct", "skip="+block) }
	write := func(block string) error { return dd("if=/dev/zero", "of="+disk.Link(), "oflag=direct", "seek="+block) }
	for what, fault := range map[string]struct {
		err   error
		fails bool
	}{
		"reading sector 0":    {read("0"), false},
		"reading sector 2048": {read("256"), true},
		"writing sector 2048": {write("256"), false},
		"reading sector 4096": {read("512"), false},
		"writing sector 4096": {write("512"), true},
	} {
		failure := (*lab.ExecError)(nil)
		if fault.fails != (errors.As(fault.err, &failure) && strings.Contains(string(failure.Stderr), "Input/output error")) || !fault.fails && fault.err != nil {
			t.Errorf("%s: %v", what, fault.err)
		}
	}
	step(t, "other faults", func(ctx context.Context) error { return node.SetFaults(ctx, volumeID, lab.Fault{Sector: 0}) })
	if err := errors.Join(read("256"), write("512")); err != nil {
		t.Errorf("the first faults are still there: %v", err)
	}
	if read("0") == nil {
		t.Error("sector 0 can be read")
	}
	step(t, "no faults", func(ctx context.Context) error { return node.SetFaults(ctx, volumeID) })
	if err := read("0"); err != nil {
		t.Errorf("the last faults are still there: %v", err)
	}
	step(t, "detach", func(ctx context.Context) error { return node.Detach(ctx, volumeID) })
}

// Two volumes whose ids begin with the same 20 characters have the same serial number,
// and udev makes one link.
func TestVMTwins(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	first, second := newDisk(t, l, volumeID), newDisk(t, l, volumeID[:24]+"000000000000")
	node := startVM(t, l, lab.Spec{Name: "n", Disks: []lab.Disk{first, second}})
	have := func() int {
		return strings.Count(execute(t, node, "sh", "-c", "cat /sys/block/vd*/serial"), first.Serial())
	}
	if got := have(); got != 2 {
		t.Errorf("%d disks have the serial number %s, want 2", got, first.Serial())
	}
	step(t, "detach", func(ctx context.Context) error { return node.Detach(ctx, second.VolumeID) })
	if got := have(); got != 1 {
		t.Errorf("after one has gone %d have it", got)
	}
	execute(t, node, "test", "-e", first.Link())
}

// User data for a copy: cloud-init runs, later than in a machine that boots. The test is
// long and no suite needs it: the demo boots cold, the cases inject user_data themselves.
func TestVMCopyRunsCloudInit(t *testing.T) {
	results.LongOnly(t)
	l := labtest.Open(t, lab.KindVM)
	node := startVM(t, l, lab.Spec{Name: "n", ServerID: serverID, UserData: writesAFile})
	step(t, "cloud-init done", node.WaitCloudInit)
	if got := execute(t, node, "cat", "/root/written", "/root/ran"); got != "by cloud-init\nran" {
		t.Errorf("user_data left %q", got)
	}
	if got := instanceID(t, node); got != serverID {
		t.Errorf("cloud-init's instance id is %s, want %s", got, serverID)
	}
}

func TestVMExecAndFiles(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	node := startVM(t, l, lab.Spec{Name: "n"})
	failure := (*lab.ExecError)(nil)
	out, err := node.Exec(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 7")
	if !errors.As(err, &failure) || failure.ExitCode != 7 || string(failure.Stderr) != "err\n" || string(out) != "out\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := node.Exec(t.Context(), "no-such-program"); !errors.As(err, &failure) || failure.ExitCode != 127 {
		t.Errorf("a program that is not there: %v", err)
	}
	big := make([]byte, 20<<20+1)
	_, err = rand.NewChaCha8([32]byte{}).Read(big)
	must(t, err)
	for path, data := range map[string][]byte{
		"/var/run/deep/er/small": {0, 1, 2, 0xff, '\r', '\n', 4},
		"/root/empty":            {},
		"/root/medium":           big[:1<<20],
	} {
		must(t, node.Push(t.Context(), path, 0o640, data))
		if got, err := node.Pull(t.Context(), path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s came back as %d bytes, %v", path, len(got), err)
		}
	}
	step(t, "push 20 MiB", func(ctx context.Context) error { return node.Push(ctx, "/root/agent", 0o755, big) })
	must(t, node.Push(t.Context(), "/root/expected", 0o600, nil))
	if got := execute(t, node, "stat", "-c", "%s %a", "/root/agent"); got != "20971521 755" {
		t.Errorf("the file is %s", got)
	}
	if tail, err := node.Exec(t.Context(), "tail", "-c", "65536", "/root/agent"); err != nil || !bytes.Equal(tail, big[len(big)-65536:]) {
		t.Errorf("its end differs, %v", err)
	}
}
