package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// boundary is a system call that a process is about to make, and with which it
// changes something outside itself or waits for another process.
type boundary struct {
	call string
	// on is the file that it is about, if any.
	on string
}

func (b boundary) String() string { return strings.TrimSpace(b.call + " " + b.on) }

// argument says where a system call names its file.
type argument struct {
	call string
	path int // the argument that is a path; −1 = none
	fd   int // the argument that is a file descriptor; −1 = none
}

var boundaries = map[uint64]argument{
	unix.SYS_OPENAT:     {"openat", 1, -1},
	unix.SYS_WRITE:      {"write", -1, 0},
	unix.SYS_PWRITE64:   {"pwrite", -1, 0},
	unix.SYS_SENDMSG:    {"sendmsg", -1, 0},
	unix.SYS_FSYNC:      {"fsync", -1, 0},
	unix.SYS_FDATASYNC:  {"fdatasync", -1, 0},
	unix.SYS_RENAME:     {"rename", 1, -1},
	unix.SYS_RENAMEAT:   {"renameat", 3, -1},
	unix.SYS_RENAMEAT2:  {"renameat2", 3, -1},
	unix.SYS_UNLINKAT:   {"unlinkat", 1, -1},
	unix.SYS_MKDIRAT:    {"mkdirat", 1, -1},
	unix.SYS_SYMLINKAT:  {"symlinkat", 2, -1},
	unix.SYS_FCHMOD:     {"fchmod", -1, 0},
	unix.SYS_IOCTL:      {"ioctl", -1, 0},
	unix.SYS_CONNECT:    {"connect", -1, 0},
	unix.SYS_CLONE:      {"clone", -1, -1},
	unix.SYS_WAIT4:      {"wait4", -1, -1},
	unix.SYS_WAITID:     {"waitid", -1, -1},
	unix.SYS_PIDFD_OPEN: {"pidfd_open", -1, -1},
}

// trace follows every thread of a running process from boundary to boundary until the
// process has ended, and calls seen before each. Attached is closed once every thread
// is followed. What the process starts is not followed.
//
// The thread of this goroutine is spent on it: only the tracer itself can speak to
// what it traces.
func trace(pid int, attached chan<- struct{}, seen func(boundary)) error {
	runtime.LockOSThread()
	t := tracer{pid: pid, seen: seen, followed: map[int]bool{}, aside: map[string]bool{}}
	if err := t.attach(); err != nil {
		return err
	}
	close(attached)
	for len(t.followed) > 0 {
		var status unix.WaitStatus
		// Only the tracees of this thread: it may have other, long-lived children.
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for the traced process: %w", err)
		case status.Stopped():
			t.followed[tid] = true
			t.stopped(tid, status)
		default:
			delete(t.followed, tid) // the process's first thread comes last
		}
	}
	return nil
}

type tracer struct {
	pid  int
	seen func(boundary)
	// followed are the threads that have not ended.
	followed map[int]bool
	// aside are sockets to the service manager, for the process's state.
	aside map[string]bool
}

// attach takes hold of all threads, also of those that begin meanwhile.
func (t *tracer) attach() error {
	for {
		found := 0
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", t.pid))
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil || t.followed[tid] {
				continue
			}
			if err := unix.PtraceSeize(tid); err != nil {
				if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
					continue // it has ended, or its parent is followed already
				}
				return fmt.Errorf("following thread %d: %w", tid, err)
			}
			t.followed[tid] = true
			found++
			if err := unix.PtraceInterrupt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if len(t.followed) == 0 {
			return fmt.Errorf("process %d has no threads", t.pid)
		}
		if found == 0 {
			return nil
		}
	}
}

// stopped lets a thread go on after each of its stops.
func (t *tracer) stopped(tid int, status unix.WaitStatus) {
	signal, event := status.StopSignal(), int(status)>>16
	deliver := 0
	switch {
	case signal == unix.SIGTRAP|0x80:
		if b, ok := t.entered(tid); ok {
			t.seen(b)
		}
	case event == unix.PTRACE_EVENT_STOP:
		// With these, new threads are followed too.
		_ = unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD)
	case event == 0:
		deliver = int(signal)
	}
	_ = unix.PtraceSyscall(tid, deliver) // it may have been killed by now
}

// entered is the boundary before which a thread has stopped.
func (t *tracer) entered(tid int) (boundary, bool) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return boundary{}, false
	}
	const notYet = ^uint64(unix.ENOSYS) + 1 // what a call has for its result when it is entered
	a, ok := boundaries[regs.Orig_rax]
	if !ok || regs.Rax != notYet {
		return boundary{}, false
	}
	arguments := [...]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10}
	b := boundary{call: a.call}
	switch {
	case a.path >= 0:
		b.on = t.text(arguments[a.path])
	case a.fd >= 0:
		b.on, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, arguments[a.fd]))
	case a.call == "waitid":
		b.on = t.program(arguments[1])
	}
	return b, t.matters(b, arguments)
}

// matters leaves out calls without a lasting effect: opening to read, the log, the status
// file, threads, ioctls that only read.
func (t *tracer) matters(b boundary, arguments [4]uint64) bool {
	if strings.HasPrefix(b.on, "/run/") || strings.HasPrefix(b.on, "anon_inode:") || t.aside[b.on] {
		return false
	}
	switch b.call {
	case "openat":
		return arguments[2]&(unix.O_CREAT|unix.O_WRONLY|unix.O_RDWR) != 0 || strings.HasPrefix(b.on, "/dev/")
	case "write":
		return arguments[0] > 2
	case "connect":
		const path = 2 // of struct sockaddr_un
		t.aside[b.on] = t.text(arguments[1]+path) == "/run/systemd/notify"
		return !t.aside[b.on]
	case "ioctl":
		return arguments[1] == unix.BLKFLSBUF
	case "clone":
		return arguments[0]&unix.CLONE_THREAD == 0
	}
	return true
}

// program is the name of the process behind a pidfd.
func (t *tracer) program(pidfd uint64) string {
	info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.pid, pidfd))
	_, after, _ := strings.Cut(string(info), "\nPid:")
	pid, _, _ := strings.Cut(after, "\n")
	name, _ := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/comm")
	return strings.TrimSpace(string(name))
}

// text reads a string of the traced process.
func (t *tracer) text(at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 256)
	n, _ := f.ReadAt(b, int64(at))
	text, _, _ := bytes.Cut(b[:n], []byte{0})
	return string(text)
}
