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
		"the controller's state was %s, and %s was not confirmed since: PUT it with its present topology, revoke what was revoked since the backup (POST /v1/nodes/{id}/revoke), then POST /v1/vnf_instances/%s/confirm",
		t.Store.Origin(), t.Instance.Title(), t.Instance.ID)).With(
		api.Action{Call: api.CallPutInstance, ID: t.Instance.ID}, api.Action{Call: api.CallRevokeNode}, api.Action{Call: api.CallConfirmInstance, ID: t.Instance.ID})
}
