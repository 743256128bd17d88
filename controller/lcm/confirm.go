package lcm

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// ConfirmInstance is an operator's word, after a restore, that the nodes of the
// instance may be let in as the store knows them. Again changes nothing. Volumes
// are not confirmed with it: whether one may be formatted is asked for each.
func (s *Service) ConfirmInstance(ctx context.Context, id string) (api.Instance, error) {
	if err := s.update(ctx, id, (*unit).confirm); err != nil {
		return api.Instance{}, err
	}
	return s.GetInstance(ctx, id)
}

func (u *unit) confirm() error {
	epoch := u.Store.Epoch()
	if u.inst.Epoch != epoch {
		u.inst.Epoch = epoch
		u.tx.OnCommit(func() { u.Log.Info("restored instance confirmed", "instance", u.inst.ID) })
	}
	for _, id := range u.inst.NodeIDs {
		node, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || node.InstanceID != u.inst.ID || node.Epoch == epoch {
			continue
		}
		node.Epoch = epoch
		u.changed(id, notify.Nodes)
		if err := u.tx.Nodes().Put(id, node); err != nil {
			return err
		}
	}
	return u.settle()
}

// unconfirmed is the restore since which nobody has confirmed the instance, nil for
// an instance of this life.
func (s *Service) unconfirmed(inst store.Instance) *api.Restoration {
	if inst.Epoch == s.Store.Epoch() {
		return nil
	}
	var r api.Restoration
	if o := s.Store.Origin(); o != nil {
		r.TakenAt, r.RestoredAt = o.TakenAt, o.RestoredAt
	}
	return &r
}

// mayOperate refuses operations on an instance whose nodes are not let in: an END
// would wait for them, and a START build on what may be long past. To end the
// instance is possible.
func (u *unit) mayOperate(r api.OperationRequest) error {
	if u.unconfirmed(u.inst) == nil || r.Operation == api.Terminate {
		return nil
	}
	return api.NewProblem(api.ProblemRestoreUnconfirmed, fmt.Sprintf(
		"the controller's state was %s, and VNF instance %s was not confirmed since: PUT its present topology, revoke what was revoked since the backup, then `hitchctl confirm %s`",
		u.Store.Origin(), u.inst.ID, u.inst.ID))
}
