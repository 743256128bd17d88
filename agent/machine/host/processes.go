package host

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process of a Pod.
type Process struct {
	PID int
	// Program is the name of its executable.
	Program string
	Started time.Time

	// ticks is when it started, as the kernel says it. A process that gets the PID later has
	// another value.
	ticks uint64
}

// Processes are those of the Pods on this machine that use the machine's own network, as the
// components of a control plane do. Another Pod may run a program of the same name.
type Processes interface {
	// OfPods returns those whose executables have one of these names.
	OfPods(programs ...string) ([]Process, error)
	// End asks a process by SIGTERM to end, so that kubelet starts it again. It is no error if
	// it has ended. What has the PID and is not that process any more gets no signal.
	End(p Process) error
}

type processes struct {
	proc    string
	log     *slog.Logger
	changes *Changes
}

func (p *processes) OfPods(programs ...string) ([]Process, error) {
	directories, err := filepath.Glob(filepath.Join(p.proc, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, directory := range directories {
		pid, err := strconv.Atoi(filepath.Base(directory))
		if err != nil || !slices.Contains(programs, p.program(pid)) {
			continue
		}
		found, err := p.ofPod(pid)
		switch {
		case gone(err):
		case err != nil:
			return nil, fmt.Errorf("looking at process %d: %w", pid, err)
		case found != nil:
			all = append(all, *found)
		}
	}
	return all, nil
}

func (p *processes) End(asked Process) error {
	// The handle is opened first: it stays that of the process that is looked at.
	handle, err := os.FindProcess(asked.PID)
	if err != nil {
		return err
	}
	defer handle.Release() //nolint:errcheck // it was only for the signal
	found, err := p.ofPod(asked.PID)
	switch {
	case gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking at process %d: %w", asked.PID, err)
	case found == nil || found.Program != asked.Program || found.ticks != asked.ticks:
		return nil // it has ended, and another one has its PID
	}
	p.changes.Command()
	p.log.Info("process of a Pod is asked to end", "program", asked.Program, "pid", asked.PID)
	if err := handle.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s (process %d): %w", asked.Program, asked.PID, err)
	}
	return nil
}

// gone says that a process has ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

func (p *processes) path(pid int, name string) string {
	return filepath.Join(p.proc, strconv.Itoa(pid), name)
}

// program is the name of the executable, "" for a thread of the kernel. The image that it is of
// may be gone.
func (p *processes) program(pid int) string {
	path, err := os.Readlink(p.path(pid, "exe"))
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(path, " (deleted)"))
}

// ofPod describes a process, nil if it is not of a Pod with the machine's own network.
func (p *processes) ofPod(pid int) (*Process, error) {
	groups, err := os.ReadFile(p.path(pid, "cgroup"))
	if err != nil {
		return nil, err
	}
	own, err := p.sameNetwork(pid)
	if err != nil || !own || !ofKubelet(string(groups)) {
		return nil, err
	}
	stat, err := os.ReadFile(p.path(pid, "stat"))
	if err != nil {
		return nil, err
	}
	ticks, err := startOf(string(stat))
	if err != nil {
		return nil, err
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return nil, err
	}
	age := time.Duration(up.Nano()) - time.Duration(ticks)*time.Second/ticksPerSecond
	return &Process{PID: pid, Program: p.program(pid), Started: time.Now().Add(-age), ticks: ticks}, nil
}

// ticksPerSecond is that of every Linux towards its programs.
const ticksPerSecond = 100

// startOf is when a process started, in ticks since the boot: the 22nd field. The second one is a
// name in parentheses that may contain anything.
func startOf(stat string) (uint64, error) {
	const first, wanted = 3, 22
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= wanted-first {
		return 0, fmt.Errorf("its stat is %.100q, expected 22 fields and more", stat)
	}
	return strconv.ParseUint(fields[wanted-first], 10, 64)
}

// sameNetwork reports whether a process uses the network that this one uses.
func (p *processes) sameNetwork(pid int) (bool, error) {
	its, err := os.Stat(p.path(pid, "ns/net"))
	if err != nil {
		return false, err
	}
	own, err := os.Stat("/proc/self/ns/net")
	return err == nil && os.SameFile(its, own), err
}

// ofKubelet reports whether a cgroup of a process is one of those that kubelet makes for Pods,
// with either driver and of either version.
func ofKubelet(groups string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(groups, func(c rune) bool { return c == '/' || c == '\n' }), func(name string) bool {
		return name == "kubepods" || name == "kubepods.slice"
	})
}
