package reconcile

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// putVolumes keeps the record of each volume that the parameters name, and lets go
// of those that they do not. A record is never deleted: it remembers that its
// volume was formatted once.
func (r *Reconciler) putVolumes(t *tx.Tx, uses []plan.VolumeUse) error {
	for _, use := range uses {
		if err := putVolume(t, use); err != nil {
			return err
		}
	}
	for _, id := range t.Instance.VolumeIDs {
		if slices.ContainsFunc(uses, func(use plan.VolumeUse) bool { return use.ID == id }) {
			continue
		}
		if err := r.ReleaseVolume(t, id); err != nil {
			return err
		}
	}
	return nil
}

func putVolume(t *tx.Tx, use plan.VolumeUse) error {
	t.Instance.VolumeIDs = with(t.Instance.VolumeIDs, use.ID)
	old, found, err := t.Volumes().Get(use.ID)
	if err != nil {
		return err
	}
	if found && heldByOther(t, old) {
		return nil // theirs until they let go of it
	}
	v := old
	if !found {
		// For a volume that an unconfirmed instance brings, it is unknown whether it
		// was there, and formatted, before the restore: the record is of no epoch.
		v = store.Volume{ID: use.ID, FilesystemUUID: api.FilesystemUUID(use.ID), Permit: store.Permit{State: api.PermitNone}, Epoch: t.Instance.Epoch}
	}
	v.InstanceID, v.NodeID, v.ResourceID = t.Instance.ID, use.NodeID, use.ResourceID
	v.SizeBytes, v.AttachedTo = use.SizeBytes, use.AttachedTo
	if found && store.Same(old, v) {
		return nil
	}
	return saveVolume(t, v)
}

// ReleaseVolume takes the volume from the node that had it. Instances that wait for it
// are reconciled after the commit.
func (r *Reconciler) ReleaseVolume(t *tx.Tx, id string) error {
	v, found, err := t.Volumes().Get(id)
	if err != nil || !found || v.InstanceID != t.Instance.ID || (v.NodeID == "" && len(v.AttachedTo) == 0) {
		return err
	}
	v.NodeID, v.AttachedTo = "", nil
	if err := saveVolume(t, v); err != nil {
		return err
	}
	all, err := t.Instances().All()
	for _, other := range all {
		if other.ID != t.Instance.ID && slices.Contains(other.VolumeIDs, id) {
			t.After(func(ctx context.Context) {
				if err := r.Reconcile(ctx, other.ID); err != nil {
					r.Log.Error("an instance that shares a volume cannot be planned again", "instance", other.ID, "error", err)
				}
			})
		}
	}
	return err
}

// ForgetVolume releases the volume for an instance that ends. The record stays.
func (r *Reconciler) ForgetVolume(t *tx.Tx, id string) error {
	if err := r.ReleaseVolume(t, id); err != nil {
		return err
	}
	v, found, err := t.Volumes().Get(id)
	if err != nil || !found || v.InstanceID != t.Instance.ID {
		return err
	}
	v.InstanceID = ""
	return saveVolume(t, v)
}

func saveVolume(t *tx.Tx, v store.Volume) error {
	v.ChangedAt = t.Now
	t.Changed(v.ID, notify.Volumes)
	return t.Volumes().Put(v.ID, v)
}
