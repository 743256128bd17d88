package lab

import (
	"context"
	"fmt"
)

// Severable is a virtual machine that can lose its network for good.
type Severable interface {
	// CutOff takes the machine off the network while it runs on with its disks, as behind a
	// switch that failed. Another machine can have its address. It cannot be started again.
	CutOff(ctx context.Context) error
}

var _ Severable = (*vm)(nil)

func (m *vm) CutOff(ctx context.Context) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	// The interface stays in the machine, without a link.
	if err := m.current().monitor.Do(ctx, "netdev_del", map[string]string{"id": "net"}, nil); err != nil {
		return fmt.Errorf("node %s: cutting off the network: %w", m.spec.Name, err)
	}
	if err := run("ip", "-n", m.lab.netns(), "link", "delete", m.tap()); err != nil {
		return err
	}
	m.mu.Lock()
	m.cutOff = true
	m.mu.Unlock()
	m.lab.mu.Lock()
	defer m.lab.mu.Unlock()
	delete(m.lab.taken, m.spec.Address)
	return nil
}
