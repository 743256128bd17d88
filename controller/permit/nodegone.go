package permit

import (
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// NodeGone ends, within tx, what a node whose identity ends was permitted.
//
// A format that was acknowledged as started may be half done, or done and unheard
// of: Interrupted, an operator decides. A permit that was only granted goes back to
// None and may be given anew, because an agent acts on a permit only after its
// start has been acknowledged, and from now on it never will be: the permit is no
// longer on record, and its node is no longer let in. That applies to permits of
// this epoch; of an earlier one it is unknown whether its start was acknowledged
// after the backup. A permission to overwrite was given for the situation that an
// operator saw, and ends with the node.
func (s *Service) NodeGone(tx *store.Tx, nodeID string) error {
	all, err := tx.Volumes().All()
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Permit.NodeID != nodeID {
			continue
		}
		before := v
		switch p := &v.Permit; {
		case p.State == api.PermitStarted:
			p.State = api.PermitInterrupted
		case p.State == api.PermitGranted && p.Epoch == s.Store.Epoch() && !p.Overwrite:
			*p = store.Permit{State: api.PermitNone}
		case p.State == api.PermitGranted, p.State == api.PermitNone && v.ReformatRequested:
			p.State = api.PermitInterrupted
		default:
			continue
		}
		v.ReformatRequested, v.Permit.Overwrite = false, false
		if shown(v) != shown(before) {
			s.announce(tx, v)
		}
		if err := s.put(tx, &v, before.Permit, "the server is gone"); err != nil {
			return err
		}
	}
	return nil
}
