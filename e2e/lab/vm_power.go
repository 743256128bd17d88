package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
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

// PowerCut lets QEMU end at once: what the guest had not sent to its disks is lost.
func (m *vm) PowerCut(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	run := m.current()
	if run.over() {
		return nil
	}
	if err := run.monitor.Do(ctx, "quit", nil, nil); err != nil && !run.over() {
		return fmt.Errorf("node %s: %w", m.spec.Name, err)
	}
	return run.waitOver(ctx)
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
