package kubeadm

import (
	"context"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// KeepalivedService holds the address that the masters share.
const KeepalivedService = "keepalived.service"

// PassAddressOn gives the shared address, if this machine holds it, to another master at once: when
// keepalived ends, it says so to the others, and when it has started again it takes the address from
// no master that is as ready. Checks of an API server that has ended would take ten seconds. Nothing
// has to be undone; without another ready master, the address comes back.
func (m *Machine) PassAddressOn(ctx context.Context, desired *api.NodeConfig) error {
	shared := shared(desired)
	if shared == "" || len(desired.Cluster.Masters) < 2 {
		return nil
	}
	name, err := m.InterfaceOf(shared)
	if name == "" || err != nil {
		return err
	}
	if err := m.Host.Units.Restart(ctx, KeepalivedService); err != nil {
		return converge.Wait(api.ReasonAddressUnavailable, "%v", err)
	}
	return nil
}
