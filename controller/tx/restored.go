package tx

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Unconfirmed is the restore since which no operator has confirmed the instance, nil for
// an instance of this epoch.
func (t *Tx) Unconfirmed() *api.Restoration {
	if t.Instance.Epoch == t.Store.Epoch() {
		return nil
	}
	var r api.Restoration
	if o := t.Store.Origin(); o != nil {
		r.TakenAt, r.RestoredAt = o.TakenAt, o.RestoredAt
	}
	return &r
}

// RequireConfirmed refuses what makes no sense for an instance whose nodes are not let
// in: an END would wait for them, and a START build on what may be long past.
func (t *Tx) RequireConfirmed() error {
	if t.Unconfirmed() == nil {
		return nil
	}
	return api.NewProblem(api.ProblemRestoreUnconfirmed, fmt.Sprintf(
		"the controller's state was %s, and VNF instance %s was not confirmed since: PUT its present topology, revoke what was revoked since the backup, then `hitchctl confirm %s`",
		t.Store.Origin(), t.Instance.ID, t.Instance.ID))
}
