// Package engine runs Debian's dockerd, with the containerd that it starts, beside
// the machines of a lab: for tests that need a container engine and nothing else
// of a machine. It has its own /etc/docker, /run, processes and, being in the
// lab's network namespace, its own bridge and ports.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
)

// Engine is a dockerd and its state, both of which end with the test.
type Engine struct {
	// Lab is where it runs. Published ports are reached by Lab.Dial, at any of the
	// lab's addresses.
	Lab *lab.Lab
	// Dir holds etc/, which is its /etc/docker, its data and its log.
	Dir string
	// Socket is where it listens.
	Socket string

	t testing.TB
	// disk is a file with a filesystem that the data is on; empty: the lab's.
	disk    string
	process *exec.Cmd
	ended   chan struct{}
}

const (
	dockerd = "/usr/sbin/dockerd"
	// docker is Debian's client: a newer one before it in PATH is not tested.
	docker = "/usr/bin/docker"
)

// inItsOwn makes a namespace of mounts and processes dockerd's own; $0 is the
// engine's folder, the rest dockerd's argv. The shell stays, as the process 1
// that takes in orphans; when it dies the kernel ends all others.
const inItsOwn = `mount -t tmpfs tmpfs /run && mkdir -p /etc/docker && mount --bind "$0/etc" /etc/docker && "$@"; exit $?`

// onDisk mounts the file LAB_DISK for the data, in the engine's own namespace. Its writes pass
// the host's page cache by, and the filesystem flushes nothing by itself for minutes: what
// the file holds is what a power cut would leave.
const onDisk = `mkdir -p "$0/data" && mount -o loop,commit=300 "$LAB_DISK" "$0/data" &&
losetup --direct-io=on "$(findmnt --noheadings --output SOURCE --mountpoint "$0/data")" && `

// Require skips the test if there is no dockerd, or no lab for it, with the reason, or
// fails it if NODEHITCH_LAB=required.
func Require(t testing.TB) {
	t.Helper()
	labtest.Require(t, lab.KindNspawn)
	if _, err := os.Stat(dockerd); err != nil {
		refuse := t.Skipf
		if os.Getenv("NODEHITCH_LAB") == "required" {
			refuse = t.Fatalf
		}
		refuse("no dockerd: apt-get install docker.io (%v)", err)
	}
}

// Open starts an engine in a lab of its own.
func Open(t testing.TB) *Engine {
	t.Helper()
	Require(t)
	return OpenIn(t, labtest.Open(t, lab.KindNspawn))
}

// OpenIn starts an engine in a lab, which takes one engine.
func OpenIn(t testing.TB, l *lab.Lab) *Engine { return open(t, l, "") }

// OpenOnDisk is Open with the data on a disk of its own, for CutPower.
func OpenOnDisk(t testing.TB) *Engine {
	t.Helper()
	Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	disk, err := l.NewDisk("engine", 1<<30)
	if err == nil {
		err = exec.CommandContext(t.Context(), "mke2fs", "-q", "-t", "ext4", disk.Path).Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	return open(t, l, disk.Path)
}

func open(t testing.TB, l *lab.Lab, disk string) *Engine {
	t.Helper()
	Require(t)
	dir := filepath.Join(l.Dir(), "engine")
	e := &Engine{Lab: l, Dir: dir, Socket: filepath.Join(dir, "docker.sock"), t: t, disk: disk}
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Stop()
		e.removeCgroups()
		if t.Failed() {
			log := e.Log()
			t.Logf("dockerd's log ends with:\n%s", log[max(0, len(log)-5000):])
		}
	})
	e.Start()
	return e
}

// Start starts it again after Stop or Kill, and returns when it answers.
func (e *Engine) Start() {
	e.t.Helper()
	log, err := os.OpenFile(filepath.Join(e.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	script := inItsOwn
	if e.disk != "" {
		script = onDisk + script
	}
	// The engine outlives a context: it ends by Stop, Kill or with the lab.
	e.process = e.Lab.Command(context.Background(), "unshare", "--mount", "--propagation", "private",
		"--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, e.Dir,
		dockerd, "--host", "unix://"+e.Socket, "--data-root", filepath.Join(e.Dir, "data"),
		"--exec-root", "/run/docker", "--pidfile", "/run/docker.pid", // forgotten when it is killed
		"--cgroup-parent", e.cgroup(), "--log-level", "warn")
	e.process.Env = append(os.Environ(), "LAB_DISK="+e.disk)
	e.process.Stdout, e.process.Stderr = log, log
	if err := e.process.Start(); err != nil {
		e.t.Fatal(err)
	}
	ended := make(chan struct{})
	process := e.process
	go func() { _ = process.Wait(); close(ended) }()
	e.ended = ended
	e.waitReady()
}

func (e *Engine) waitReady() {
	e.t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for e.ping() != nil {
		select {
		case <-e.ended:
			e.t.Fatalf("dockerd ended before it was ready:\n%s", e.Log())
		case <-deadline:
			e.t.Fatalf("dockerd is not ready: %v", e.ping())
		case <-tick.C:
		}
	}
}

func (e *Engine) ping() error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.Socket)
		}}, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ping: %s", answer.Status)
	}
	return nil
}

// Stop ends dockerd in order, and with it its containers. They stay on the disk.
func (e *Engine) Stop() {
	if e.process == nil {
		return
	}
	for _, pid := range e.PIDs() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	select {
	case <-e.ended:
	case <-time.After(30 * time.Second):
		e.t.Log("dockerd does not end by SIGTERM")
	}
	e.Kill()
}

// Kill ends dockerd, its containers and all else in it at one moment.
func (e *Engine) Kill() {
	if e.process == nil {
		return
	}
	first := childrenOf(e.process.Process.Pid) // process 1 of all the others
	_ = e.process.Process.Kill()
	<-e.ended
	e.process = nil
	// The kernel ends them after it, not with it.
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(first) > 0 && syscall.Kill(first[0], 0) == nil {
		select {
		case <-deadline:
			e.t.Log("dockerd does not end by SIGKILL")
			return
		case <-tick.C:
		}
	}
}

// CutPower ends an engine of OpenOnDisk as Kill does, and starts it again with what was on the
// disk at one moment.
func (e *Engine) CutPower() {
	e.t.Helper()
	left := lab.Disk{Path: e.disk + ".left"}
	err := lab.Disk{Path: e.disk}.Snapshot(e.t.Context(), left.Path)
	e.Kill()
	if err := errors.Join(err, os.Rename(left.Path, e.disk)); err != nil {
		e.t.Fatal(err)
	}
	e.Start()
}

// Inside runs a function that sees the files that the engine sees.
func (e *Engine) Inside(do func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread ends with its goroutine: it is never unlocked.
		runtime.LockOSThread()
		mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", e.PIDs()[0]))
		if err != nil {
			done <- err
			return
		}
		defer mounts.Close()
		// A thread that shares its working directory with others may not change its mounts.
		err = errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS))
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// Reload makes dockerd read its daemon.json again.
func (e *Engine) Reload() {
	for _, pid := range e.PIDs() {
		_ = syscall.Kill(pid, syscall.SIGHUP)
	}
}

// PIDs are those of dockerd, as the host knows them: none or one.
func (e *Engine) PIDs() []int {
	var found []int
	for _, shell := range childrenOf(e.process.Process.Pid) {
		for _, pid := range childrenOf(shell) {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "dockerd\n" {
				found = append(found, pid)
			}
		}
	}
	return found
}

// Docker runs Debian's docker client with the engine and returns what it printed,
// without the white space around it.
func (e *Engine) Docker(args ...string) (string, error) {
	cmd := exec.CommandContext(e.t.Context(), docker, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "DOCKER_HOST=unix://" + e.Socket, "DOCKER_CONFIG=" + filepath.Join(e.Dir, "client")}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Log is what dockerd has logged, in all its lives.
func (e *Engine) Log() []byte {
	log, _ := os.ReadFile(filepath.Join(e.Dir, "log"))
	return log
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) []int {
	out, _ := exec.CommandContext(context.Background(), "ps", "-o", "pid=", "--ppid", strconv.Itoa(pid)).Output()
	var found []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			found = append(found, child)
		}
	}
	return found
}

func (e *Engine) cgroup() string { return "/nodehitch-engine-" + filepath.Base(e.Lab.Dir()) }

// removeCgroups removes what dockerd leaves of the group that its containers were in.
func (e *Engine) removeCgroups() {
	for _, pattern := range []string{"/sys/fs/cgroup" + e.cgroup(), "/sys/fs/cgroup/*" + e.cgroup()} {
		groups, _ := filepath.Glob(pattern)
		for _, group := range groups {
			below, _ := filepath.Glob(group + "/*/cgroup.procs")
			for _, b := range below {
				_ = os.Remove(filepath.Dir(b))
			}
			if err := os.Remove(group); err != nil {
				e.t.Log(err)
			}
		}
	}
}
