package storage

import (
	"context"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Format is one message about one volume.
type Format struct {
	VolumeID       string
	FilesystemUUID string
	// Device is its path by id, for people; SizeBytes what the kernel says.
	Device    string
	SizeBytes int64
	// Permit is set for Started and Formatted.
	Permit string
	// Proof is set for Wanted where the disk is proven blank. Without it only a
	// permit to overwrite can be had.
	Proof *api.BlankCheck
}

// Report is the message as the controller's API has it.
func (f Format) Report(phase api.FormatPhase) api.FormatReport {
	return api.FormatReport{
		Phase: phase, Permit: f.Permit, FilesystemUUID: f.FilesystemUUID,
		SizeBytes: f.SizeBytes, Device: f.Device, BlankCheck: f.Proof,
	}
}

// Permits is who says whether a volume may be formatted. Every method may be called
// again with the same message and then answers the same. A refusal is a
// *converge.Waiting (NoPermit, MultiAttached) or a *converge.Terminal
// (FormatInterrupted) whose message says what to do; any other error means that no
// answer was had.
type Permits interface {
	// Wanted asks for a permit.
	Wanted(ctx context.Context, f Format) (Permit, error)
	// Started says that the disk will now be written to. Only when it returns nil may
	// it be.
	Started(ctx context.Context, f Format) error
	// Formatted says that the filesystem is there.
	Formatted(ctx context.Context, f Format) error
}

// Permit is good for one format of one volume on this node.
type Permit struct {
	ID string
	// Overwrite: an operator said that what is on the disk may be lost.
	Overwrite bool
}

// Operator permits the volumes that were named on the command line of
// `nodehitch-agent apply --permit-format`, where they are blank. It never permits
// to overwrite.
type Operator struct{ VolumeIDs []string }

// Wanted permits what was named.
func (o Operator) Wanted(_ context.Context, f Format) (Permit, error) {
	named := slices.ContainsFunc(o.VolumeIDs, func(id string) bool { return strings.EqualFold(id, f.VolumeID) })
	switch {
	case !named:
		return Permit{}, converge.Wait(api.ReasonNoPermit,
			"volume %s is not formatted: name it with --permit-format %s, or let a controller decide", f.VolumeID, f.VolumeID)
	case f.Proof == nil:
		return Permit{}, converge.Wait(api.ReasonNoPermit,
			"volume %s is not blank, and --permit-format is for blank volumes: wipe it yourself if nobody needs what it holds", f.VolumeID)
	}
	return Permit{ID: "operator-" + strings.ToLower(f.VolumeID)}, nil
}

// Started repeats the question, so that a format begun by an earlier run goes on
// only where the volume is named again.
func (o Operator) Started(ctx context.Context, f Format) error {
	f.Proof = &api.BlankCheck{}
	_, err := o.Wanted(ctx, f)
	return err
}

// Formatted has nobody to tell.
func (Operator) Formatted(context.Context, Format) error { return nil }
