package permit

import (
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// mine refuses a node that is not the one server of the volume, or does not mean the
// disk and the filesystem that the record means.
func (x *exchange) mine() error {
	v := x.v
	switch {
	case v.NodeID != x.node:
		return notYours(v.ID, x.node)
	case len(v.AttachedTo) > 1:
		return api.NewProblem(api.ProblemMultiAttached, fmt.Sprintf(
			"the volume %s is attached to the servers %s: detach it from all but one", v.ID, strings.Join(v.AttachedTo, ", ")))
	case !strings.EqualFold(x.r.FilesystemUUID, v.FilesystemUUID):
		return noPermit("the filesystem UUID of the volume %s is %s, not %s: read the configuration again", v.ID, v.FilesystemUUID, x.r.FilesystemUUID)
	case v.SizeBytes != 0 && x.r.SizeBytes != v.SizeBytes:
		return noPermit("the volume %s has %d bytes and the device has %d: it is another disk", v.ID, v.SizeBytes, x.r.SizeBytes)
	}
	return nil
}

// known refuses a message whose permit is not the one on record for this node.
func (x *exchange) known() error {
	p := x.v.Permit
	if x.r.Permit == "" || p.ID != x.r.Permit || p.NodeID != x.node {
		if p.NodeID != x.node && x.v.NodeID != x.node {
			return notYours(x.v.ID, x.node)
		}
		if p.State == api.PermitInterrupted {
			return interrupted(x.v)
		}
		return noPermit("the permit for the volume %s is not this server's, or is void since the server was replaced or the volume taken away: ask again", x.v.ID)
	}
	return nil
}

// thisEpoch refuses what another epoch permitted: the backup that was restored does
// not tell how far that permit was used since.
func (x *exchange) thisEpoch() error {
	if x.v.Permit.Epoch == x.epoch {
		return nil
	}
	return noPermit("the permit of the volume %s was given before the controller's state was %s: check what the volume holds, "+
		"then confirm with POST /v1/volumes/%s/adopt or POST /v1/volumes/%s/reformat", x.v.ID, x.origin, x.v.ID, x.v.ID).With(adopt(x.v), reformat(x.v))
}

// sinceKnown refuses the first permit for a volume of a backup: it may have been
// given, and spent, after the backup was taken.
func (x *exchange) sinceKnown() error {
	if x.v.Epoch == x.epoch {
		return nil
	}
	return noPermit("the controller's state was %s, so it does not know whether a format of the volume %s was permitted since: check what the volume holds, "+
		"then POST /v1/volumes/%s/adopt keeps it, or POST /v1/volumes/%s/reformat erases it", x.origin, x.v.ID, x.v.ID, x.v.ID).With(adopt(x.v), reformat(x.v))
}

// spent says why there is no further permit.
func (x *exchange) spent() error {
	v := x.v
	switch v.Permit.State {
	case api.PermitInterrupted:
		return interrupted(v)
	case api.PermitAdopted:
		return noPermit("an operator adopted the filesystem %s on the volume %s, so it is never formatted: "+
			"if that filesystem is lost, POST /v1/volumes/%s/reformat permits a new one", v.FilesystemUUID, v.ID, v.ID).With(reformat(v))
	case api.PermitFormatted:
		return noPermit("the volume %s was formatted by the server %s, and a volume is formatted once: if that filesystem is lost, "+
			"POST /v1/volumes/%s/reformat permits a new one", v.ID, v.Permit.NodeID, v.ID).With(reformat(v))
	default:
		return noPermit("nothing is permitted on the volume %s", v.ID)
	}
}

func noPermit(format string, args ...any) *api.Problem {
	return api.NewProblem(api.ProblemNoPermit, fmt.Sprintf(format, args...))
}

// notYours answers the same for a volume of another server as for none.
func notYours(volumeID, nodeID string) error {
	return noPermit("the configuration of the server %s names no volume %s", nodeID, volumeID)
}

func interrupted(v *store.Volume) error {
	return api.NewProblem(api.ProblemFormatInterrupted, fmt.Sprintf(
		"the server %s was permitted to format the volume %s and left before it reported the end, so the content of the volume is unknown: "+
			"check it, then POST /v1/volumes/%s/reformat permits a new format", v.Permit.NodeID, v.ID, v.ID)).With(reformat(v))
}

func adopt(v *store.Volume) api.Action { return api.Action{Call: api.CallAdoptVolume, ID: v.ID} }

func reformat(v *store.Volume) api.Action {
	return api.Action{Call: api.CallReformatVolume, ID: v.ID}
}
