package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Reboot asks systemd, and waits for another boot id: QEMU goes on meanwhile.
func (m *vm) Reboot(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	const id = "/proc/sys/kernel/random/boot_id"
	before, err := m.Pull(ctx, id)
	if err != nil {
		return err
	}
	if err := m.ask(ctx, "reboot"); err != nil {
		return err
	}
	run := m.current()
	err = until(ctx, 100*time.Millisecond, func() (bool, error) {
		if err := m.waitReady(ctx, run); err != nil {
			return false, err
		}
		// A question may be lost with the guest that is going down.
		answer, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		now, err := m.Pull(answer, id)
		return err == nil && !bytes.Equal(now, before), nil
	})
	if err != nil {
		return m.explain("rebooting", err)
	}
	return nil
}

func (m *vm) Stop(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	run := m.current()
	if run.over() {
		return nil
	}
	if err := m.ask(ctx, "poweroff"); err != nil {
		return err
	}
	if err := run.waitOver(ctx); err != nil {
		return m.explain("shutting down", err)
	}
	return nil
}

// PowerCut ends QEMU between two instructions of the guest: what the guest had not
// sent to its disks is lost. QEMU flushes the disks before it ends, which a power
// failure does not. So it is frozen first, and the present content of the write logs and
// the console is noted: anything later is dropped.
func (m *vm) PowerCut(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	run := m.current()
	if run.over() {
		return nil
	}
	said, err := m.frozenInstant(ctx, run)
	if err != nil {
		return fmt.Errorf("node %s: cutting the power: %w", m.spec.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.monitor.Do(ctx, "quit", nil, nil) }()
	if err := unix.Kill(run.cmd.Process.Pid, unix.SIGCONT); err != nil {
		return err
	}
	if err := <-ended; err != nil && !run.over() {
		return fmt.Errorf("node %s: %w", m.spec.Name, err)
	}
	return errors.Join(run.waitOver(ctx), os.Truncate(m.path(consoleLog), said))
}

// frozenInstant stops QEMU, notes for each write log what it holds, and returns
// how much the console has said.
func (m *vm) frozenInstant(ctx context.Context, r *vmRun) (said int64, err error) {
	pid := r.cmd.Process.Pid
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return 0, err
	}
	if err := until(ctx, time.Millisecond, func() (bool, error) { return stopped(pid), nil }); err != nil {
		return 0, err
	}
	for _, d := range m.disks {
		if d.WriteLog == "" {
			continue
		}
		if err := d.noteCut(ctx); err != nil {
			return 0, err
		}
	}
	info, err := os.Stat(m.path(consoleLog))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// stopped: every thread of the process has stopped, or it has ended.
func stopped(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		_, state, found := bytes.Cut(stat, []byte(") "))
		if err == nil && found && !bytes.HasPrefix(state, []byte("T")) && !bytes.HasPrefix(state, []byte("Z")) {
			return false
		}
	}
	return true
}

// ask hands a verb to systemctl. The agent may be gone before it can tell the
// outcome; only a refusal is an error.
func (m *vm) ask(ctx context.Context, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := m.Exec(ctx, "systemctl", verb)
	if refused := (*ExecError)(nil); errors.As(err, &refused) && refused.ExitCode > 0 {
		return err
	}
	return nil
}
