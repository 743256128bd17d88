package lcm

import (
	"slices"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// putVolumes keeps the record of each volume that the parameters name, and lets go
// of those that they do not. A record is never deleted: it remembers that its
// volume was formatted once.
func (u *unit) putVolumes(uses []plan.VolumeUse) error {
	for _, use := range uses {
		if err := u.putVolume(use); err != nil {
			return err
		}
	}
	for _, id := range u.inst.VolumeIDs {
		if slices.ContainsFunc(uses, func(use plan.VolumeUse) bool { return use.ID == id }) {
			continue
		}
		if err := u.releaseVolume(id); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) putVolume(use plan.VolumeUse) error {
	u.inst.VolumeIDs = with(u.inst.VolumeIDs, use.ID)
	old, found, err := u.tx.Volumes().Get(use.ID)
	if err != nil {
		return err
	}
	if found && u.heldByOther(old) {
		return nil // theirs until they let go of it
	}
	v := old
	if !found {
		// Of a volume that an unconfirmed instance brings, it is not known whether it
		// was there, and formatted, before the restore: the record is of no epoch.
		v = store.Volume{ID: use.ID, FilesystemUUID: api.FilesystemUUID(use.ID), Permit: store.Permit{State: api.PermitNone}, Epoch: u.inst.Epoch}
	}
	v.InstanceID, v.NodeID, v.ResourceID = u.inst.ID, use.NodeID, use.ResourceID
	v.SizeBytes, v.AttachedTo = use.SizeBytes, use.AttachedTo
	if found && same(old, v) {
		return nil
	}
	return u.saveVolume(v)
}

// releaseVolume takes the volume from whichever node had it and tells the
// instances that wait for it.
func (u *unit) releaseVolume(id string) error {
	v, found, err := u.tx.Volumes().Get(id)
	if err != nil || !found || v.InstanceID != u.inst.ID || (v.NodeID == "" && len(v.AttachedTo) == 0) {
		return err
	}
	v.NodeID, v.AttachedTo = "", nil
	if err := u.saveVolume(v); err != nil {
		return err
	}
	all, err := u.tx.Instances().All()
	for _, other := range all {
		if other.ID != u.inst.ID && slices.Contains(other.VolumeIDs, id) {
			u.others = append(u.others, other.ID)
		}
	}
	return err
}

// forgetVolume releases the volume for an instance that ends. The record stays.
func (u *unit) forgetVolume(id string) error {
	if err := u.releaseVolume(id); err != nil {
		return err
	}
	v, found, err := u.tx.Volumes().Get(id)
	if err != nil || !found || v.InstanceID != u.inst.ID {
		return err
	}
	v.InstanceID = ""
	return u.saveVolume(v)
}

func (u *unit) saveVolume(v store.Volume) error {
	v.ChangedAt = u.now
	u.changed(v.ID)
	return u.tx.Volumes().Put(v.ID, v)
}
