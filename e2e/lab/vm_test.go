package lab_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
)

// A virtual machine from its kernel on: identity, disk, network, the packages
// that it can install by itself, reboot and power cut.
func TestVMColdLife(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	disk := newDisk(t, l, volumeID)
	var node lab.Node
	step(t, "machine up", func(ctx context.Context) (err error) {
		node, err = l.VM(ctx, lab.Spec{Name: "storage", ServerID: serverID, UserData: writesAFile, Disks: []lab.Disk{disk}, Cold: true})
		return err
	})
	step(t, "cloud-init done", node.WaitCloudInit)
	if got := execute(t, node, "cat", "/root/written"); got != "by cloud-init" {
		t.Errorf("user_data's file holds %q", got)
	}
	if got := execute(t, node, "cat", "/sys/class/dmi/id/product_uuid"); got != serverID {
		t.Errorf("DMI says %s, want %s", got, serverID)
	}
	if got := execute(t, node, "sh", "-c", `grep -o '"instance_id": "[^"]*"' /run/cloud-init/instance-data.json | head -n1`); !strings.Contains(got, serverID) {
		t.Errorf("cloud-init's instance id is %s, want %s", got, serverID)
	}
	if got := execute(t, node, "readlink", "-f", disk.Link()); got != "/dev/vdb" {
		t.Errorf("the volume is %s", got)
	}
	step(t, "apt-get update, install nfs-kernel-server", func(ctx context.Context) error {
		if _, err := node.Exec(ctx, "apt-get", "-q", "update"); err != nil {
			return err
		}
		_, err := node.Exec(ctx, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qy", "install", "nfs-kernel-server")
		return err
	})
	if got := execute(t, node, "systemctl", "is-active", "nfs-server"); got != "active" {
		t.Errorf("nfs-server is %s", got)
	}
	step(t, "reboot", node.Reboot)
	step(t, "cloud-init done again", node.WaitCloudInit)
	leavesNothing(t, l)
}

func TestVMExecReportsFailure(t *testing.T) {
	l := labtest.Open(t, lab.KindVM)
	node, err := l.VM(t.Context(), lab.Spec{Name: "n"})
	must(t, err)
	failure := (*lab.ExecError)(nil)
	out, err := node.Exec(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 7")
	if !errors.As(err, &failure) || failure.ExitCode != 7 || string(failure.Stderr) != "err\n" || string(out) != "out\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := node.Exec(t.Context(), "no-such-program"); !errors.As(err, &failure) || failure.ExitCode != 127 {
		t.Errorf("a program that is not there: %v", err)
	}
	binary := []byte{0, 1, 2, 0xff, '\r', '\n', 4}
	must(t, node.Push(t.Context(), "/var/run/deep/er/file", 0o640, binary))
	if got, err := node.Pull(t.Context(), "/run/deep/er/file"); err != nil || string(got) != string(binary) {
		t.Errorf("pushed %q, pulled %q, %v", binary, got, err)
	}
}
