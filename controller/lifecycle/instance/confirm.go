package instance

import (
	"context"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store/tx"
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
		t.Instance.CarriedOver.Initialize = false // the cluster may have been made since the backup
		id := t.Instance.ID
		t.OnCommit(func() { s.Log.Info("restored instance confirmed", "event", api.EventInstanceConfirmed, "instance", id) })
	}
	nodes, err := t.InstanceNodes()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if node.Epoch == epoch {
			continue
		}
		node.Epoch = epoch
		t.Changed(node.ID, notify.Nodes)
		if err := t.Nodes().Put(node.ID, node); err != nil {
			return err
		}
	}
	return s.Reconciler.ReconcileAndFinish(t)
}
