package daemon

import (
	"context"
	"errors"

	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
)

// whose finds out whose state this is. It reports whether it is known to be this
// machine's; the error is *identity.OtherMachine where it is another's. The record
// says it; where that is lost or damaged the certificate does, and the record is
// made again.
func (d *Daemon) whose(ctx context.Context) (known bool, err error) {
	record, err := d.State.Machine()
	if err != nil {
		d.Log.Warn("it is not on record which server this state belongs to", "error", err)
	}
	current, damaged, err := d.files.Usable()
	if err = errors.Join(err, damaged); err != nil {
		d.Log.Warn("the identity in use cannot be used any more", "error", err, "renewed", current != nil)
	}
	if record == nil {
		if current == nil || current.NodeID() == "" {
			return false, nil // nothing here says that it is anybody's
		}
		record = d.certified(ctx, current.NodeID())
	} else if current != nil && current.NodeID() != "" && current.NodeID() != record.NodeID {
		return false, &identity.OtherMachine{Enrolled: current.NodeID(), Found: record.NodeID, Source: "the record of its enrollment", StateDirectory: d.Config.StateDirectory}
	}
	if other := d.Machine.Same(ctx, *record, d.Config.StateDirectory); other != nil {
		if current == nil && !d.hasApplied() {
			return false, nil // all there is is a key, which enroll forgets
		}
		return false, other
	}
	d.board.Change(func(s *status.Status) { s.NodeID, s.IdentitySource = record.NodeID, record.Source })
	return true, nil
}

// certified is the record of a machine that has its certificate and nothing else to
// tell who it is. It is kept where the machine itself says the same.
func (d *Daemon) certified(ctx context.Context, nodeID string) *state.Machine {
	claim, err := d.Machine.Find(ctx)
	if err != nil {
		d.Log.Warn("only the certificate says which server this is", "node", nodeID, "error", err)
		return &state.Machine{NodeID: nodeID}
	}
	record := state.Machine{NodeID: nodeID, Source: claim.Source, ProductUUID: d.Machine.ProductUUID()}
	if claim.ID != nodeID {
		return &record // and Same says whose it is
	}
	if err := d.State.SaveMachine(record); err != nil {
		d.Log.Warn("which server this is is not on record", "error", err)
	}
	return &record
}

func (d *Daemon) hasApplied() bool {
	applied, err := d.State.Applied()
	return applied != nil || err != nil
}
