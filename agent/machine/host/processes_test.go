package host

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is a running program of this name, and its PID. It is stopped, so that a signal that it
// gets stays pending.
func program(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	sleep, err := find("sleep")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "600") //nolint:gosec // of this test
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// seen is a /proc in which the process is as it is, but for its cgroup and its network.
func seen(t *testing.T, pid int, cgroup, network string) string {
	t.Helper()
	proc, own := t.TempDir(), filepath.Join("/proc", strconv.Itoa(pid))
	at := filepath.Join(proc, strconv.Itoa(pid))
	if err := os.MkdirAll(filepath.Join(at, "ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink(filepath.Join(own, "exe"))
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"exe": exe, "stat": filepath.Join(own, "stat"), "ns/net": network} {
		if err := os.Symlink(to, filepath.Join(at, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(at, "cgroup"), []byte(cgroup), 0o600); err != nil {
		t.Fatal(err)
	}
	return proc
}

// asked reports whether a stopped process has got SIGTERM.
func asked(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "ShdPnd:")
	pending, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pending&(1<<(syscall.SIGTERM-1)) != 0
}

const ownNetwork = "/proc/self/ns/net"

func TestAProcessOfAPodIsFoundAndEnded(t *testing.T) {
	for name, cgroup := range map[string]string{
		"cgroup v1":         "12:memory:/kubepods/burstable/pod1e2f/9a8b\n1:name=systemd:/kubepods/burstable/pod1e2f/9a8b\n0::/\n",
		"cgroup v2":         "0::/kubepods/besteffort/pod1e2f/9a8b\n",
		"cgroup by systemd": "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1e2f.slice/cri-containerd-9a8b.scope\n",
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			cmd := program(t, "kube-scheduler")
			changes := &Changes{}
			p := &processes{proc: seen(t, cmd.Process.Pid, cgroup, ownNetwork), log: slog.New(slog.DiscardHandler), changes: changes}
			found, err := p.OfPods("etcd", "kube-scheduler")
			if err != nil || len(found) != 1 || found[0].PID != cmd.Process.Pid || found[0].Program != "kube-scheduler" {
				t.Fatalf("it finds %+v, %v", found, err)
			}
			const tick = 20 * time.Millisecond
			if at := found[0].Started; at.Before(begun.Add(-tick)) || at.After(time.Now()) {
				t.Errorf("it started at %v, after %v", at, begun)
			}
			if other, err := p.OfPods("etcd", "kube-schedule"); len(other) > 0 || err != nil {
				t.Errorf("by another name it finds %+v, %v", other, err)
			}
			if err := p.End(found[0]); err != nil || !asked(t, cmd.Process.Pid) || changes.Count().None() {
				t.Errorf("it is not asked to end: %v", err)
			}
			_ = cmd.Process.Signal(syscall.SIGCONT)
			_ = cmd.Wait()
			if err := p.End(found[0]); err != nil {
				t.Errorf("ending what has ended: %v", err)
			}
		})
	}
}

func TestWhatIsNotThatProcessOfAPodGetsNoSignal(t *testing.T) {
	const pod = "0::/kubepods/burstable/pod1e2f/9a8b\n"
	for name, c := range map[string]struct {
		cgroup, network string
		change          func(*Process)
	}{
		"a program of the machine":          {"0::/system.slice/etcd.service\n", ownNetwork, nil},
		"a cgroup that is almost kubelet's": {"0::/system.slice/kubepods-exporter.service\n", ownNetwork, nil},
		"a Pod with a network of its own":   {pod, "/proc/self/ns/uts", nil},
		"a PID that another one has now":    {pod, ownNetwork, func(p *Process) { p.ticks-- }},
		"a PID that another program has":    {pod, ownNetwork, func(p *Process) { p.Program = "kube-apiserver" }},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := program(t, "etcd")
			pid := cmd.Process.Pid
			log := slog.New(slog.DiscardHandler)
			// As it would be found in a Pod.
			found, err := (&processes{proc: seen(t, pid, pod, ownNetwork), log: log, changes: &Changes{}}).OfPods("etcd")
			if err != nil || len(found) != 1 {
				t.Fatalf("it finds %+v, %v", found, err)
			}
			p := &processes{proc: seen(t, pid, c.cgroup, c.network), log: log, changes: &Changes{}}
			if c.change == nil {
				if others, err := p.OfPods("etcd"); len(others) > 0 || err != nil {
					t.Errorf("it finds %+v, %v", others, err)
				}
			} else {
				c.change(&found[0])
			}
			if err := p.End(found[0]); err != nil || asked(t, pid) || !p.changes.Count().None() {
				t.Errorf("it was asked to end: %v, %v", asked(t, pid), err)
			}
		})
	}
}

// This test's own process is one of the machine, not of kubelet's.
func TestTheProcessesOfThisMachine(t *testing.T) {
	cmd := program(t, "kube-apiserver")
	p := Linux(nil).Processes
	found, err := p.OfPods("kube-apiserver")
	for _, each := range found {
		if each.PID == cmd.Process.Pid {
			t.Errorf("it finds %+v", each)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if err := p.End(Process{PID: cmd.Process.Pid, Program: "kube-apiserver"}); err != nil || asked(t, cmd.Process.Pid) {
		t.Errorf("it was asked to end, %v", err)
	}
}

func TestTheStartOfAProcess(t *testing.T) {
	for stat, want := range map[string]uint64{
		"7 (etcd) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 9 0 12345 10 20 30":     12345,
		"7 (a ) S (b) R 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 9 0 12345 10 20 30": 12345,
		"7 (etcd) S 1": 0, "": 0,
	} {
		if got, err := startOf(stat); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v, want %d", stat, got, err, want)
		}
	}
}
