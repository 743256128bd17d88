package lab

import (
	"context"
	"fmt"
)

// Pausable is a virtual machine: its processors and its clocks stop, as under a hypervisor
// that suspends it, and continue where they were. A container has no clock of its own.
type Pausable interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

var _ Pausable = (*vm)(nil)

func (m *vm) Pause(ctx context.Context) error { return m.monitored(ctx, "stop") }

func (m *vm) Resume(ctx context.Context) error { return m.monitored(ctx, "cont") }

func (m *vm) monitored(ctx context.Context, command string) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	if err := m.current().monitor.Do(ctx, command, nil, nil); err != nil {
		return fmt.Errorf("node %s: %s: %w", m.spec.Name, command, err)
	}
	return nil
}
