package daemon

import (
	"context"
	"errors"

	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
)

// verifyMachine checks that the state belongs to this machine and reports whether that
// is known. The error is *identity.OtherMachine if it belongs to another one. It uses
// the record of the enrollment; if that is lost or damaged, it uses the certificate and
// writes the record again.
func (d *Daemon) verifyMachine(ctx context.Context) (known bool, err error) {
	record, err := d.State.Machine()
	if err != nil {
		d.Log.Warn("the record of the machine that owns this state cannot be read", "error", err)
	}
	current, damaged, err := d.files.Usable()
	if err = errors.Join(err, damaged); err != nil {
		d.Log.Warn("the identity is damaged", "error", err, "renewed", current != nil)
	}
	if record == nil {
		if current == nil || current.NodeID() == "" {
			return false, nil // nothing here belongs to a machine
		}
		record = d.certified(ctx, current.NodeID())
	} else if current != nil && current.NodeID() != "" && current.NodeID() != record.NodeID {
		return false, &identity.OtherMachine{Enrolled: current.NodeID(), Found: record.NodeID, Source: "the record of its enrollment", StateDirectory: d.Config.StateDirectory}
	}
	if other := d.Machine.Same(ctx, *record, d.Config.StateDirectory); other != nil {
		if current == nil && !d.hasApplied() {
			return false, nil // only a key exists, which enroll drops
		}
		return false, other
	}
	d.board.Change(func(s *status.Status) { s.NodeID, s.IdentitySource = record.NodeID, record.Source })
	return true, nil
}

// certified returns the record for a machine whose only evidence is its certificate. It
// saves the record if the machine's own server id is the same.
func (d *Daemon) certified(ctx context.Context, nodeID string) *state.Machine {
	claim, err := d.Machine.Find(ctx)
	if err != nil {
		d.Log.Warn("the server id could not be read; using the certificate's", "node", nodeID, "error", err)
		return &state.Machine{NodeID: nodeID}
	}
	record := state.Machine{NodeID: nodeID, Source: claim.Source, ProductUUID: d.Machine.ProductUUID()}
	if claim.ID != nodeID {
		return &record // Same then compares it
	}
	if err := d.State.SaveMachine(record); err != nil {
		d.Log.Warn("the record of the machine could not be saved", "error", err)
	}
	return &record
}

func (d *Daemon) hasApplied() bool {
	applied, err := d.State.Applied()
	return applied != nil || err != nil
}
