package lab_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const serverID = "c1f4c7f0-5a8e-4a7f-9a61-2f3d2a6f9f01"

// A container's whole life: identity and disk at boot, reboot, power cut,
// disks that come and go, and nothing left when the lab closes.
func TestNspawnLife(t *testing.T) {
	l := labtest.Open(t, lab.KindNspawn)
	disk := newDisk(t, l, volumeID)
	var node lab.Node
	step(t, "container up", func(ctx context.Context) (err error) {
		node, err = l.Nspawn(ctx, lab.Spec{Name: "storage", ServerID: serverID, UserData: writesAFile, Disks: []lab.Disk{disk}})
		return err
	})
	step(t, "cloud-init done", node.WaitCloudInit)

	if got := execute(t, node, "cat", "/root/written"); got != "by cloud-init" {
		t.Errorf("user_data's file holds %q", got)
	}
	if got := execute(t, node, "hostname"); got != "storage" {
		t.Errorf("hostname is %q", got)
	}
	if got := execute(t, node, "sh", "-c", `grep -o '"instance_id": "[^"]*"' /run/cloud-init/instance-data.json | head -n1`); !strings.Contains(got, serverID) {
		t.Errorf("cloud-init's instance id is %s, want %s", got, serverID)
	}
	execute(t, node, "mkfs.ext4", "-q", disk.Link())
	must(t, node.Push(t.Context(), "/etc/systemd/system/mnt.mount", 0o644, []byte(
		"[Unit]\nBefore=local-fs.target\n[Mount]\nWhat="+disk.Link()+"\nWhere=/mnt\n[Install]\nWantedBy=local-fs.target\n")))
	execute(t, node, "systemctl", "enable", "--now", "mnt.mount")
	execute(t, node, "touch", "/mnt/kept")

	step(t, "reboot", node.Reboot)
	step(t, "cloud-init done again", node.WaitCloudInit)
	execute(t, node, "test", "-e", "/mnt/kept")
	if got := execute(t, node, "cat", "/root/ran"); got != "ran" {
		t.Errorf("runcmd of a known instance ran again at reboot: %q", got)
	}

	step(t, "power cut", node.PowerCut)
	if _, err := node.Exec(t.Context(), "true"); err == nil {
		t.Error("a machine without power answers")
	}
	step(t, "start", node.Start)
	step(t, "cloud-init done after the power cut", node.WaitCloudInit)
	execute(t, node, "test", "-e", "/mnt/kept")

	second := newDisk(t, l, "11112222-3333-4444-5555-666677778888")
	step(t, "attach", func(ctx context.Context) error { return node.Attach(ctx, second) })
	execute(t, node, "blockdev", "--getsize64", second.Link())
	step(t, "detach", func(ctx context.Context) error { return node.Detach(ctx, second.VolumeID) })
	if _, err := node.Exec(t.Context(), "test", "-e", second.Link()); err == nil {
		t.Error("the link of a detached disk is still there")
	}
	must(t, node.WaitCloudInit(t.Context()))
	step(t, "stop", node.Stop)
	if console, err := node.Console(); err != nil || !strings.Contains(string(console), "Halting system.") {
		t.Errorf("the console does not tell of an orderly end, %v", err)
	}
	step(t, "start after stop", node.Start)
	leavesNothing(t, l)
}

// What runs in a container may not set the host's clock, load modules or read its kernel's
// memory: neither a service of the machine nor a command of a test.
func TestNspawnMachinesLackWhatTheyDoNotNeed(t *testing.T) {
	l := labtest.Open(t, lab.KindNspawn)
	node, err := l.Nspawn(t.Context(), lab.Spec{Name: "node"})
	must(t, err)
	const sysModule, sysRawio, sysTime, syslog = 16, 17, 25, 34
	for _, who := range []string{"1", "self"} {
		text := execute(t, node, "sed", "-n", "s/^CapEff:\t//p", "/proc/"+who+"/status")
		has, err := strconv.ParseUint(text, 16, 64)
		if err != nil || has == 0 {
			t.Fatalf("process %s has the capabilities %q: %v", who, text, err)
		}
		for _, capability := range []int{sysModule, sysRawio, sysTime, syslog} {
			if has&(1<<capability) != 0 {
				t.Errorf("process %s has the capability %d of the host", who, capability)
			}
		}
	}
}

// A disk that was attached after the boot and is mounted does not prevent Destroy.
func TestNspawnIsDestroyedWithAMountedDisk(t *testing.T) {
	l := labtest.Open(t, lab.KindNspawn)
	disk := newDisk(t, l, volumeID)
	node, err := l.Nspawn(t.Context(), lab.Spec{Name: "n"})
	must(t, err)
	must(t, node.Attach(t.Context(), disk))
	execute(t, node, "sh", "-euc", `mkfs.ext4 -q "$1"; mount "$1" /mnt`, "sh", disk.Link())
	step(t, "destroy", func(context.Context) error { return node.Destroy() })
}

func TestNspawnExecReportsFailure(t *testing.T) {
	l := labtest.Open(t, lab.KindNspawn)
	node, err := l.Nspawn(t.Context(), lab.Spec{Name: "n"})
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
	if got := execute(t, node, "stat", "-c", "%a", "/run/deep/er/file"); got != "640" {
		t.Errorf("mode is %s", got)
	}
}

// Machines reach each other and the lab; two labs do not see each other.
func TestNetwork(t *testing.T) {
	l := labtest.Open(t, lab.KindNspawn)
	listens := lab.Gateway.String() + ":9890"
	listener, err := l.Listen(t.Context(), "tcp", listens)
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello from the lab")
	})}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	type started struct {
		lab.Node
		error
	}
	nodes := make(chan started)
	for _, name := range []string{"a", "b"} {
		go func() {
			n, err := l.Nspawn(t.Context(), lab.Spec{Name: name})
			nodes <- started{n, err}
		}()
	}
	a, b := <-nodes, <-nodes
	must(t, errors.Join(a.error, b.error))
	must(t, errors.Join(a.WaitCloudInit(t.Context()), b.WaitCloudInit(t.Context())))
	execute(t, a, "ping", "-c1", "-W2", b.Address().String())
	if got := execute(t, b, "curl", "-s", "http://"+listens); got != "hello from the lab" {
		t.Errorf("the lab's listener said %q", got)
	}
	out, err := l.Command(t.Context(), "ip", "-brief", "address").Output()
	if err != nil || !strings.Contains(string(out), lab.Gateway.String()+"/24") {
		t.Errorf("a command in the lab's network sees %s, %v", out, err)
	}
	if c, err := l.Dial(t.Context(), "tcp", listens); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	// Not "can it connect": some networks answer for every address.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listens, nil)
	must(t, err)
	if answer, err := http.DefaultClient.Do(request); err == nil {
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if string(body) == "hello from the lab" {
			t.Error("the host itself reaches the lab's listener")
		}
	}

	other := labtest.Open(t, lab.KindNspawn)
	if _, err := other.Listen(t.Context(), "tcp", listens); err != nil {
		t.Errorf("a second lab on this host: %v", err)
	}
	// Close ends a command that still runs.
	must(t, l.Command(t.Context(), "sleep", "1000").Start())
	leavesNothing(t, l)
}

// apt works in a machine without a network. The test is long; in short runs the storage
// server of e2e/trust gets its packages this way.
func TestNspawnInstallsOffline(t *testing.T) {
	results.LongOnly(t)
	l := labtest.Open(t, lab.KindNspawn)
	node, err := l.Nspawn(t.Context(), lab.Spec{Name: "n"})
	must(t, err)
	must(t, node.WaitCloudInit(t.Context()))
	step(t, "apt-get update, install nfs-kernel-server", func(ctx context.Context) error {
		if _, err := node.Exec(ctx, "apt-get", "-q", "update"); err != nil {
			return err
		}
		_, err := node.Exec(ctx, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qy", "install", "nfs-kernel-server")
		return err
	})
	execute(t, node, "exportfs", "-s")
}
