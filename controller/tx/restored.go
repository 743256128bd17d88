package tx

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Unconfirmed says that no operator has confirmed the instance since the last restore.
func (t *Tx) Unconfirmed() bool { return t.Instance.Epoch != t.Store.Epoch() }

// Restored is the backup that an unconfirmed instance comes from, nil for any other.
func (t *Tx) Restored() *api.RestoreOrigin {
	if !t.Unconfirmed() {
		return nil
	}
	var r api.RestoreOrigin
	if o := t.Store.Origin(); o != nil {
		r.TakenAt, r.RestoredAt = o.TakenAt, o.RestoredAt
	}
	return &r
}

// RequireConfirmed refuses what makes no sense for an instance whose nodes are not let
// in: an END would wait for them, and a START build on what may be long past.
func (t *Tx) RequireConfirmed() error {
	if !t.Unconfirmed() {
		return nil
	}
	return api.NewProblem(api.ProblemRestoreUnconfirmed, fmt.Sprintf(
		"the controller's state was %s, and VNF instance %s was not confirmed since: `hitchctl apply` its present topology, revoke what was revoked since the backup, then `hitchctl confirm %s`",
		t.Store.Origin(), t.Instance.ID, t.Instance.ID))
}
