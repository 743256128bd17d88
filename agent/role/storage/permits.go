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
	// BlankCheck is set for Wanted if the disk is blank. Without it only a permit to
	// overwrite can be given.
	BlankCheck *api.BlankCheck
}

// Report is the message in the form of the controller's API.
func (f Format) Report(phase api.FormatPhase) api.FormatReport {
	return api.FormatReport{
		Phase: phase, Permit: f.Permit, FilesystemUUID: f.FilesystemUUID,
		SizeBytes: f.SizeBytes, Device: f.Device, BlankCheck: f.BlankCheck,
	}
}

// Permits decides whether a volume may be formatted. Every method is idempotent. A
// refusal is a *converge.Waiting (NoPermit, MultiAttached) or a *converge.Terminal
// (FormatInterrupted) whose message says what to do; any other error means that there
// was no answer.
type Permits interface {
	// Wanted asks for a permit.
	Wanted(ctx context.Context, f Format) (Permit, error)
	// Started says that the disk will now be written to. It may be written to only after
	// Started has returned nil.
	Started(ctx context.Context, f Format) error
	// Formatted says that the format is complete.
	Formatted(ctx context.Context, f Format) error
}

// Permit is valid for one format of one volume on this node.
type Permit struct {
	ID string
	// Overwrite: an operator allows the data on the disk to be lost.
	Overwrite bool
}

// Operator permits the volumes named on the command line of
// `nodehitch-agent apply --permit-format` if they are blank. It never permits
// overwriting.
type Operator struct{ VolumeIDs []string }

// Wanted permits a named volume.
func (o Operator) Wanted(_ context.Context, f Format) (Permit, error) {
	named := slices.ContainsFunc(o.VolumeIDs, func(id string) bool { return strings.EqualFold(id, f.VolumeID) })
	switch {
	case !named:
		return Permit{}, converge.Wait(api.ReasonNoPermit,
			"volume %s is not formatted: name it with --permit-format %s, or let a controller decide", f.VolumeID, f.VolumeID)
	case f.BlankCheck == nil:
		return Permit{}, converge.Wait(api.ReasonNoPermit,
			"volume %s is not blank, and --permit-format is for blank volumes: if its data is no longer needed, wipe it first", f.VolumeID)
	}
	return Permit{ID: "operator-" + strings.ToLower(f.VolumeID)}, nil
}

// Started asks again, so that an unfinished format of an earlier run continues only if
// the volume is named again.
func (o Operator) Started(ctx context.Context, f Format) error {
	f.BlankCheck = &api.BlankCheck{}
	_, err := o.Wanted(ctx, f)
	return err
}

// Formatted does nothing.
func (Operator) Formatted(context.Context, Format) error { return nil }
