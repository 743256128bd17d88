package reconcile

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
)

// Retire ends the life of nodes that the topology in force does not have: their
// identities are void, and formats that they began are interrupted.
func (r *Reconciler) Retire(t *tx.Tx, why string) error {
	nodes, err := t.InstanceNodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if !n.Expected {
			if err := r.retire(t, n, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// RetireNode is Retire of one node, which the topology in force does not have.
func (r *Reconciler) RetireNode(t *tx.Tx, id, why string) error {
	n, found, err := t.Nodes().Get(id)
	if err != nil || !found || n.Expected || n.InstanceID != t.Instance.ID {
		return err
	}
	return r.retire(t, n, why)
}

func (r *Reconciler) retire(t *tx.Tx, n store.Node, why string) error {
	if n.Identity.Live() {
		t.Changed(n.ID, notify.Nodes)
		if err := r.Identities.RevokeTx(t.Tx, n.ID, why); err != nil {
			return fmt.Errorf("revoking the identity of node %s: %w", n.ID, err)
		}
	}
	if err := r.Permits.NodeGone(t.Tx, n.ID); err != nil {
		return fmt.Errorf("interrupting the formats of node %s: %w", n.ID, err)
	}
	return nil
}
