package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// formatter makes the filesystem of one volume on one disk. The order of its steps
// keeps data safe and makes a crash at any point harmless:
//
//	check blank → wanted → journal permitted → started, acknowledged → check blank
//	again → journal started → mkfs → check → journal formatted → report → reported
//
// Before "journal started" nothing is written to the disk, so after a crash the agent
// begins again with the blank check. After it the agent resumes the format.
type formatter struct {
	*steps
	v    *api.StorageVolume
	disk host.Disk
	// found is what the disk contains, for messages.
	found content
}

// run inspects the disk again, whatever the plan has seen, and acts on the decision.
func (f *formatter) run(ctx context.Context) error {
	c := inspect(ctx, f.Host.Disks, f.disk, f.v.FilesystemUUID, f.found.kind)
	f.found = c
	r, err := f.journal.read(f.v.VolumeID)
	if err != nil {
		return err
	}
	what, why := decide(c, r, f.v, f.disk, f.NodeID)
	switch what {
	case keep:
		return f.finishFormat(r)
	case format:
		return f.fresh(ctx, c.blankCheck)
	case resume:
		return f.resume(ctx, c, *r)
	case refuse:
		return f.overwrite(ctx, r, why)
	case wait:
		return f.unreadable(why)
	case mismatch:
		return f.mismatched(r)
	}
	return fmt.Errorf("volume %s: a bug in the agent: no such decision", f.v.VolumeID)
}

// finishFormat ends the record of a format whose filesystem is already in use.
func (f *formatter) finishFormat(r *record) error {
	if r == nil || r.Phase != started || r.misfit(f.v, f.disk, f.NodeID) != "" {
		return nil
	}
	r.Phase = formatted
	return f.journal.write(*r)
}

// fresh formats a blank disk.
func (f *formatter) fresh(ctx context.Context, blankCheck api.BlankCheck) error {
	message := f.message("")
	message.BlankCheck = &blankCheck
	permit, err := f.Permits.Wanted(ctx, message)
	if err != nil {
		return f.unanswered("asking for a permit to format it", err)
	}
	return f.begin(ctx, permit)
}

// overwrite asks for a permit to overwrite a disk that is not blank. It asks only if
// the document says that an operator has requested a reformat.
func (f *formatter) overwrite(ctx context.Context, r *record, found string) error {
	if !f.v.ReformatRequested {
		return f.refused(r, found)
	}
	permit, err := f.Permits.Wanted(ctx, f.message(""))
	var final *converge.Terminal
	var waiting *converge.Waiting
	if errors.As(err, &final) || errors.As(err, &waiting) && waiting.Reason != api.ReasonNoPermit {
		return f.unanswered("", err)
	}
	if err != nil || !permit.Overwrite {
		return f.refused(r, found)
	}
	use, err := f.Host.Disks.Use(f.disk)
	if err != nil {
		return f.unreadable(err.Error())
	}
	if len(use.Mounts)+len(use.Holders) > 0 || use.Swap {
		return converge.Wait(api.ReasonForeignData,
			"volume %s: an operator permits overwriting %s, but it is in use: %s; unmount or detach that first", f.v.VolumeID, f.disk.Path, users(use))
	}
	f.Log.Warn("overwriting a disk as an operator permits", "volume", f.v.VolumeID, "device", f.disk.Path, "found", found)
	return f.begin(ctx, permit)
}

// begin formats with a new permit.
func (f *formatter) begin(ctx context.Context, permit Permit) error {
	if permit.ID == "" {
		return fmt.Errorf("volume %s: the permit has no id", f.v.VolumeID)
	}
	r := record{
		VolumeID: f.v.VolumeID, Phase: permitted, Permit: permit.ID, Overwrite: permit.Overwrite, NodeID: f.NodeID,
		Device: f.disk.Path, SizeBytes: f.disk.Size, FilesystemUUID: f.v.FilesystemUUID,
	}
	// Keep the device open, so that its number is not reused.
	d, err := f.Host.Disks.Open(f.disk, false)
	if err != nil {
		return f.unreadable(err.Error())
	}
	defer d.Close()
	if err := f.journal.write(r); err != nil {
		return err
	}
	if err := f.Permits.Started(ctx, f.message(r.Permit)); err != nil {
		return f.unanswered("reporting that its format starts", err)
	}
	if err := f.stillBlank(ctx, permit); err != nil {
		return err
	}
	r.Phase = started
	if err := f.journal.write(r); err != nil {
		return err
	}
	return f.make(ctx, d, r)
}

// stillBlank repeats the blank check, because the call to the controller can take long.
func (f *formatter) stillBlank(ctx context.Context, permit Permit) error {
	if permit.Overwrite {
		return nil
	}
	switch again := inspect(ctx, f.Host.Disks, f.disk, f.v.FilesystemUUID, blank); again.kind {
	case blank:
		return nil
	case ours, foreign:
		return f.refused(nil, "now "+again.what)
	default:
		return f.unreadable(again.what)
	}
}

// resume resumes an unfinished format after the controller has confirmed that the
// permit is still valid. A format that turns out to be complete needs no permit and is
// not repeated: the filesystem may have been written to since.
func (f *formatter) resume(ctx context.Context, c content, r record) error {
	d, err := f.Host.Disks.Open(f.disk, true)
	var inUse *host.InUseError
	switch {
	case errors.As(err, &inUse):
		return converge.Wait(api.ReasonFormatFailed,
			"volume %s: its format has to be finished, but %v; stop that, or wait until it ends", f.v.VolumeID, err)
	case err != nil:
		return f.unreadable(err.Error())
	}
	d.Close() // it was read only
	if d, err = f.Host.Disks.Open(f.disk, false); err != nil {
		return f.unreadable(err.Error())
	}
	defer d.Close()
	if c.kind == ours && f.Host.Disks.CheckExt4(ctx, d) == nil {
		f.Log.Info("a format is complete although the journal says started", "volume", f.v.VolumeID, "device", f.disk.Path)
		return f.finished(ctx, r)
	}
	if err := f.Permits.Started(ctx, f.message(r.Permit)); err != nil {
		var waiting *converge.Waiting
		if errors.As(err, &waiting) && waiting.Reason == api.ReasonNoPermit {
			// The permit is void. An operator may have permitted a new format.
			return f.overwrite(ctx, &r, "an unfinished format; "+waiting.Message)
		}
		return f.unanswered("reporting that its format is resumed", err)
	}
	f.Log.Info("resuming a format", "volume", f.v.VolumeID, "device", f.disk.Path, "permit", r.Permit)
	return f.make(ctx, d, r)
}

// make is the only function that writes to a disk that is not mounted. It is called only
// after the journal says started.
func (f *formatter) make(ctx context.Context, d host.Device, r record) error {
	disks := f.Host.Disks
	if r.Overwrite {
		if err := disks.Erase(ctx, d); err != nil {
			return f.failed(err)
		}
	}
	if err := disks.MakeExt4(ctx, d, r.FilesystemUUID); err != nil {
		return f.failed(err)
	}
	if err := disks.CheckExt4(ctx, d); err != nil {
		return f.failed(err)
	}
	if err := f.confirm(f.v, f.disk); err != nil {
		return f.failed(err)
	}
	return f.finished(ctx, r)
}

// finished records that the filesystem is on the medium and was checked.
func (f *formatter) finished(ctx context.Context, r record) error {
	r.Phase = formatted
	if err := f.journal.write(r); err != nil {
		return err
	}
	if err := f.Host.Disks.Announce(ctx, f.disk); err != nil {
		f.Log.Warn("udev could not be told of the new filesystem", "device", f.disk.Path, "error", err)
	}
	return nil
}

// report reports the finished format until the controller has acknowledged it.
func (f *formatter) report(ctx context.Context) error {
	r, err := f.journal.read(f.v.VolumeID)
	if err != nil || r == nil || r.Phase != formatted {
		return err
	}
	if err := f.Permits.Formatted(ctx, f.message(r.Permit)); err != nil {
		return f.unanswered("reporting that it is formatted", err)
	}
	r.Phase = reported
	return f.journal.write(*r)
}

func (f *formatter) message(permit string) Format {
	return Format{
		VolumeID: f.v.VolumeID, FilesystemUUID: f.v.FilesystemUUID,
		Device: f.disk.Path, SizeBytes: f.disk.Size, Permit: permit,
	}
}
