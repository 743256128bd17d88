package identity

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/agent/state"
)

// OtherMachine says that the state on this disk belongs to another server: the
// disk, or an image made of it, was copied.
type OtherMachine struct {
	Enrolled, Found, Source, StateDirectory string
}

func (e *OtherMachine) Error() string {
	return fmt.Sprintf("this machine is %s (by %s), but the identity in %s is that of %s: its disk or image is a copy of an enrolled node. "+
		"Nothing is done under the other node's name. To enroll as the machine it is, move %s away and restart nodehitch-agent; "+
		"to avoid it, make images before the agent has enrolled", e.Found, e.Source, e.StateDirectory, e.Enrolled, e.StateDirectory)
}

// Same checks that this is the machine that enrolled. The source that gave the id
// then has the last word; where it does not answer now (no network, cloud-init not
// that far), the DMI product UUID must be what it was, or the id itself. Where
// neither says anything, nothing is proven. The error is *OtherMachine.
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
