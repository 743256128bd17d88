package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process identifies a process uniquely: its pid alone may have been given to another one
// since.
type process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks since boot, field 22 of proc(5) stat
}

// identify reads who has this pid now.
func identify(pid int) (process, error) {
	_, started, err := procStat(pid)
	return process{pid, started}, err
}

// capabilities is the process's bounding set, as setpriv takes it.
func (p process) capabilities() (string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		text, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return "", fmt.Errorf("process %d: its bounding set: %w", p.PID, err)
		}
		set := "-all"
		for bit := range 64 {
			if mask&(1<<bit) != 0 {
				set += fmt.Sprintf(",+cap_%d", bit)
			}
		}
		return set, nil
	}
	return "", fmt.Errorf("process %d: its status has no CapBnd", p.PID)
}

// alive says whether the process still runs; a zombie does not.
func (p process) alive() bool {
	state, started, err := procStat(p.PID)
	return err == nil && started == p.Started && state != 'Z' && state != 'X'
}

// end sends sig, waits a little for the process to go, and then kills it.
// It returns when the process is gone.
func (p process) end(sig syscall.Signal) error {
	const grace, last = 4 * time.Second, 10 * time.Second
	if sig == 0 {
		sig = syscall.SIGTERM
	}
	for _, try := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{{sig, grace}, {syscall.SIGKILL, last}} {
		if !p.alive() {
			return nil
		}
		if err := syscall.Kill(p.PID, try.sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d: %w", p.PID, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), try.wait)
		err := until(ctx, 5*time.Millisecond, func() (bool, error) { return !p.alive(), nil })
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end, not even by SIGKILL", p.PID)
}

// procStat reads a process's state and start time. The command name, field 2,
// may hold spaces and parentheses: count from its last one.
func procStat(pid int) (state byte, started uint64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat: unexpected content", pid)
	}
	started, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], started, err
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []int
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, child)
		}
	}
	return found
}

// comm is a process's name, for people who read the ledger.
func comm(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// until asks for a state until it holds, an error ends the question, or ctx
// ends. The states of a machine (a process, a socket, a link in /dev) have no
// common way to be subscribed to, so this polls.
func until(ctx context.Context, every time.Duration, holds func() (bool, error)) error {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// kill ends a child of ours that may have ended already.
func kill(p *os.Process) error {
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
