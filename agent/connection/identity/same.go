package identity

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/agent/state"
)

// OtherMachine says that the state on this disk belongs to another server, because the
// disk or an image of it was copied.
type OtherMachine struct {
	Enrolled, Found, Source, StateDirectory string
}

func (e *OtherMachine) Error() string {
	return fmt.Sprintf("this machine is %s (by %s), but the identity in %s is that of %s: its disk or image is a copy of an enrolled node. "+
		"The agent does nothing with that identity. To enroll this machine, move %s away and restart nodehitch-agent; "+
		"to avoid this, make images before the agent has enrolled", e.Found, e.Source, e.StateDirectory, e.Enrolled, e.StateDirectory)
}

// Same checks that this is the machine that enrolled. It asks the source of the enrolled
// id. If that source does not answer now (no network, cloud-init has not finished), the
// DMI product UUID must be unchanged, or be the id itself. If neither is available, Same
// returns nil. The error is *OtherMachine.
func (m *Machine) Same(ctx context.Context, enrolled state.Machine, directory string) error {
	if id, err := m.Ask(ctx, enrolled.Source); err == nil {
		if id == enrolled.NodeID {
			return nil
		}
		return &OtherMachine{Enrolled: enrolled.NodeID, Found: id, Source: enrolled.Source, StateDirectory: directory}
	}
	id := m.ProductUUID()
	if id == "" || enrolled.ProductUUID == "" || id == enrolled.ProductUUID || id == enrolled.NodeID {
		return nil
	}
	return &OtherMachine{Enrolled: enrolled.NodeID, Found: id, Source: DMI, StateDirectory: directory}
}
