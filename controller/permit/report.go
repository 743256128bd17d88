package permit

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Report answers one message of the format exchange of a node that has been
// authenticated. What it acknowledges is on disk. Each message may come again, from
// the same node and with the same permit, and gets the same answer. The problems:
// no-permit, format-interrupted and multi-attached, which say what to do.
func (s *Service) Report(ctx context.Context, nodeID, volumeID string, r api.FormatReport) (api.FormatPermit, error) {
	phases := map[api.FormatPhase]func(*exchange) error{
		api.FormatWanted:    (*exchange).wanted,
		api.FormatStarted:   (*exchange).started,
		api.FormatFormatted: (*exchange).formatted,
	}
	step, ok := phases[r.Phase]
	if !ok {
		return api.FormatPermit{}, api.NewInvalid(fault.List{fault.Root.Key("phase").Fault(
			fmt.Sprintf("found %q, expected wanted, started or formatted", r.Phase))})
	}
	var answer api.FormatPermit
	err := s.Store.Update(func(tx *store.Tx) error {
		tx.By(event.Caller(ctx))
		v, found, err := tx.Volumes().Get(strings.ToLower(volumeID))
		if err != nil {
			return err
		}
		if !found {
			return notYours(volumeID, nodeID)
		}
		if v.Permit.State == "" {
			v.Permit.State = api.PermitNone
		}
		before := v
		x := &exchange{v: &v, node: nodeID, epoch: s.Store.Epoch(), origin: s.Store.Origin(), r: r}
		if err := step(x); err != nil {
			return err
		}
		answer = api.FormatPermit{Phase: r.Phase, Permit: v.Permit.ID, Overwrite: v.Permit.Overwrite}
		if v.Permit == before.Permit && v.ReformatRequested == before.ReformatRequested {
			return nil
		}
		if shown(v) != shown(before) {
			s.announce(tx, v)
		}
		return s.put(tx, &v, before.Permit, "format "+string(r.Phase))
	})
	if err != nil {
		s.log().Warn("format message refused", "volume", volumeID, "node", nodeID, "phase", r.Phase, "error", err)
		return api.FormatPermit{}, err
	}
	return answer, nil
}

// exchange is one message about one volume; its methods change the volume's permit
// or say why not.
type exchange struct {
	v      *store.Volume
	node   string
	epoch  int64
	origin *store.Origin
	r      api.FormatReport
}

func (x *exchange) started() error {
	if err := x.mine(); err != nil {
		return err
	}
	if err := x.known(); err != nil {
		return err
	}
	p := &x.v.Permit
	switch p.State {
	case api.PermitGranted, api.PermitStarted:
		if err := x.thisEpoch(); err != nil {
			return err
		}
		if p.SizeBytes != x.r.SizeBytes {
			return noPermit("the permit of the volume %s is for a device of %d bytes and this one has %d: it is another disk", x.v.ID, p.SizeBytes, x.r.SizeBytes)
		}
		p.State = api.PermitStarted
		return nil
	default:
		return x.spent()
	}
}

// formatted records a fact and permits nothing, so it checks only the permit:
// the volume may have been promised elsewhere since, or the store restored.
func (x *exchange) formatted() error {
	if err := x.known(); err != nil {
		return err
	}
	p := &x.v.Permit
	switch p.State {
	case api.PermitStarted, api.PermitInterrupted:
		// Interrupted: the node was taken for gone, and came back with the work done.
		p.State, p.Overwrite = api.PermitFormatted, false
		x.v.ReformatRequested = false
		return nil
	case api.PermitFormatted:
		return nil
	case api.PermitGranted:
		return noPermit("the format of the volume %s was reported before its start was acknowledged: this is a bug of the agent", x.v.ID)
	default:
		return x.spent()
	}
}
