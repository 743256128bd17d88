package permit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Adopt takes over the filesystem that is already on the volume: its UUID is what
// agents mount from now on, and the volume is not formatted. It is refused while a
// live node is formatting (carryOut), for the UUID of another volume, and for a text that is no UUID.
func (s *Service) Adopt(ctx context.Context, volumeID, filesystemUUID string) (api.Volume, error) {
	id, err := uuid.Parse(filesystemUUID)
	if err != nil || len(filesystemUUID) != 36 || id == uuid.Nil {
		return api.Volume{}, api.NewInvalid(fault.List{fault.Root.Key("filesystemUuid").Fault(fmt.Sprintf(
			"found %q, expected the UUID that `blkid` prints for the filesystem", filesystemUUID))})
	}
	return s.carryOut(ctx, volumeID, "adopted by an operator", func(tx *store.Tx, v *store.Volume) error {
		all, err := tx.Volumes().All()
		if err != nil {
			return err
		}
		for _, other := range all {
			// The UUID that is assigned to another volume stays that volume's, also while it
			// has an adopted filesystem: a reformat gives it back.
			if other.ID != v.ID && slices.Contains([]string{strings.ToLower(other.FilesystemUUID), api.FilesystemUUID(other.ID)}, id.String()) {
				return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
					"the filesystem %s is that of the volume %s: if %s is a copy of it, give one of them a new UUID with tune2fs -U", id, other.ID, v.ID))
			}
		}
		v.FilesystemUUID, v.ReformatRequested = id.String(), false
		v.Epoch = s.Store.Epoch()
		v.Permit = store.Permit{State: api.PermitAdopted, Epoch: v.Epoch}
		return nil
	})
}

// Reformat permits the volume's present node one more format, whatever the disk
// contains. confirm is the volume id once more. The permission ends when it is used,
// when the node goes, and when the store is restored.
func (s *Service) Reformat(ctx context.Context, volumeID, confirm string) (api.Volume, error) {
	if !strings.EqualFold(volumeID, confirm) {
		return api.Volume{}, api.NewInvalid(fault.List{fault.Root.Key("confirmVolumeId").Fault(fmt.Sprintf(
			"found %q, expected the volume id %q repeated: its data will be lost", confirm, volumeID))})
	}
	return s.carryOut(ctx, volumeID, "reformat confirmed by an operator", func(tx *store.Tx, v *store.Volume) error {
		if v.NodeID == "" {
			return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
				"no configuration names the volume %s now, so no server can format it: give a topology that attaches it first", v.ID))
		}
		if len(v.AttachedTo) > 1 {
			return api.NewProblem(api.ProblemMultiAttached, fmt.Sprintf(
				"the volume %s is attached to the servers %s: detach it from all but one first", v.ID, strings.Join(v.AttachedTo, ", ")))
		}
		if err := inUse(tx, v); err != nil {
			return err
		}
		v.FilesystemUUID, v.ReformatRequested = api.FilesystemUUID(v.ID), true
		v.Epoch = s.Store.Epoch()
		v.Permit = store.Permit{State: api.PermitNone, NodeID: v.NodeID, Epoch: v.Epoch}
		return nil
	})
}

// inUse refuses to reformat a volume that its node has mounted with the assigned
// filesystem. The agent keeps that in any case; a permission that is not used
// would lie ready for whatever the disk contains one day.
func inUse(tx *store.Tx, v *store.Volume) error {
	node, _, err := tx.Nodes().Get(v.NodeID)
	if err != nil || !node.Identity.Live() || v.FilesystemUUID != api.FilesystemUUID(v.ID) {
		return err
	}
	mounted := node.Status.Condition(api.ConditionVolumesMounted)
	if mounted == nil || mounted.Status != api.ConditionTrue || node.Status.AppliedDigest != node.Digest {
		return nil
	}
	return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
		"the server %s has the volume %s mounted with its assigned filesystem, so no format is needed: delete the files there if they may be lost", node.ID, v.ID))
}

// carryOut does what an operator has decided, unless a live node is formatting: it would
// be formatting under a permit that is no longer on record. What was permitted
// before a restore waits for this very word.
func (s *Service) carryOut(ctx context.Context, volumeID, why string, change func(*store.Tx, *store.Volume) error) (api.Volume, error) {
	var shown api.Volume
	err := s.Store.Update(func(tx *store.Tx) error {
		tx.By(event.Caller(ctx))
		v, err := getVolume(tx, volumeID)
		if err != nil {
			return err
		}
		if err := s.formatting(tx, v); err != nil {
			return err
		}
		before := v.Permit
		if err := change(tx, &v); err != nil {
			return err
		}
		s.announce(tx, v)
		if err := s.put(tx, &v, before, why); err != nil {
			return err
		}
		i, _, err := tx.Instances().Get(v.InstanceID)
		shown = s.wire(v, i.Name)
		return err
	})
	return shown, err
}

func (s *Service) formatting(tx *store.Tx, v store.Volume) error {
	if v.Permit.State != api.PermitStarted || v.Permit.Epoch != s.Store.Epoch() {
		return nil
	}
	node, _, err := tx.Nodes().Get(v.Permit.NodeID)
	if err != nil || !node.Identity.Live() {
		return err
	}
	return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
		"the server %s is formatting the volume %s: wait until it is done, or POST /v1/nodes/%s/revoke if it is lost", node.ID, v.ID, node.ID)).With(
		api.Action{Call: api.CallRevokeNode, ID: node.ID})
}
