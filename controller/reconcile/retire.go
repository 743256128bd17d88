package reconcile

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/tx"
)

// Retire ends the life of nodes that the topology in force does not have: their
// identities are void, and formats that they began are interrupted.
func (r *Reconciler) Retire(t *tx.Tx, why string) error {
	for _, id := range t.Instance.NodeIDs {
		n, found, err := t.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || n.InstanceID != t.Instance.ID || n.Expected {
			continue
		}
		if n.Identity.Live() {
			t.Changed(id, notify.Nodes)
			if err := r.Identities.RevokeTx(t.Tx, id, why); err != nil {
				return fmt.Errorf("revoking the identity of node %s: %w", id, err)
			}
		}
		if err := r.Permits.NodeGone(t.Tx, id); err != nil {
			return fmt.Errorf("interrupting the formats of node %s: %w", id, err)
		}
	}
	return nil
}
