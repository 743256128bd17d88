package instance

import (
	"context"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// ConfirmInstance is an operator's word, after a restore, that the nodes of the
// instance may be let in as the store knows them. Again changes nothing. Volumes
// are not confirmed with it: whether one may be formatted is asked for each.
func (s *Service) ConfirmInstance(ctx context.Context, id string) (api.Instance, error) {
	if err := s.Runner.Update(ctx, id, s.confirm); err != nil {
		return api.Instance{}, err
	}
	return s.GetInstance(ctx, id)
}

func (s *Service) confirm(t *tx.Tx) error {
	epoch := t.Store.Epoch()
	if t.Instance.Epoch != epoch {
		t.Instance.Epoch = epoch
		id := t.Instance.ID
		t.OnCommit(func() { s.Log.Info("restored instance confirmed", "event", api.EventInstanceConfirmed, "instance", id) })
	}
	for _, id := range t.Instance.NodeIDs {
		node, found, err := t.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || node.InstanceID != t.Instance.ID || node.Epoch == epoch {
			continue
		}
		node.Epoch = epoch
		t.Changed(id, notify.Nodes)
		if err := t.Nodes().Put(id, node); err != nil {
			return err
		}
	}
	return s.Reconciler.ReconcileAndFinish(t)
}
