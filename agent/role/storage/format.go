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
// is what keeps data safe, and what makes a crash at any point harmless:
//
//	prove blank → wanted → journal permitted → started, acknowledged → prove blank
//	again → journal started → mkfs → check → journal formatted → report → reported
//
// Up to "journal started" nothing is written to the disk, so that a crash before it
// begins again with the proof. After it the format is resumed.
type formatter struct {
	*steps
	v    *api.StorageVolume
	disk host.Disk
	// found is what the disk holds, for what an operator is told.
	found content
}

// run looks at the disk anew, whatever a plan has seen, and does what may be done.
func (f *formatter) run(ctx context.Context) error {
	c := look(ctx, f.Host.Disks, f.disk, f.v.FilesystemUUID, f.found.kind)
	f.found = c
	r, err := f.journal.read(f.v.VolumeID)
	if err != nil {
		return err
	}
	what, why := decide(c, r, f.v, f.disk, f.NodeID)
	switch what {
	case keep:
		return f.settle(r)
	case format:
		return f.fresh(ctx, c.proof)
	case resume:
		return f.resume(ctx, c, *r)
	case refuse:
		return f.overwrite(ctx, r, why)
	case wait:
		return f.unreadable(why)
	}
	return fmt.Errorf("volume %s: a bug in the agent: no such decision", f.v.VolumeID)
}

// settle ends the record of a format whose filesystem turned out to be in use.
func (f *formatter) settle(r *record) error {
	if r == nil || r.Phase != started || r.misfit(f.v, f.disk, f.NodeID) != "" {
		return nil
	}
	r.Phase = formatted
	return f.journal.write(*r)
}

// fresh formats a blank disk.
func (f *formatter) fresh(ctx context.Context, proof api.BlankCheck) error {
	message := f.message("")
	message.Proof = &proof
	permit, err := f.Permits.Wanted(ctx, message)
	if err != nil {
		return f.unanswered("asking for a permit to format it", err)
	}
	return f.begin(ctx, permit)
}

// overwrite asks for the permit that an operator's word is worth, where the disk is
// not blank. Nobody is asked where the document knows of no such word.
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
			"volume %s: an operator permits to overwrite %s, but it is in use: %s; unmount or detach that first", f.v.VolumeID, f.disk.Path, users(use))
	}
	f.Log.Warn("an operator permits to overwrite", "volume", f.v.VolumeID, "device", f.disk.Path, "found", found)
	return f.begin(ctx, permit)
}

// begin takes a permit from its receipt to mkfs.
func (f *formatter) begin(ctx context.Context, permit Permit) error {
	if permit.ID == "" {
		return fmt.Errorf("volume %s: the permit has no id", f.v.VolumeID)
	}
	r := record{
		VolumeID: f.v.VolumeID, Phase: permitted, Permit: permit.ID, Overwrite: permit.Overwrite, NodeID: f.NodeID,
		Device: f.disk.Path, SizeBytes: f.disk.Size, FilesystemUUID: f.v.FilesystemUUID,
	}
	// Open from here on, so that its number stays its own.
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

// stillBlank proves again what may have been true only before the controller was
// asked, which can take long.
func (f *formatter) stillBlank(ctx context.Context, permit Permit) error {
	if permit.Overwrite {
		return nil
	}
	switch again := look(ctx, f.Host.Disks, f.disk, f.v.FilesystemUUID, blank); again.kind {
	case blank:
		return nil
	case ours, foreign:
		return f.refused(nil, "now "+again.what)
	default:
		return f.unreadable(again.what)
	}
}

// resume goes on with a format that was begun, once the controller has confirmed
// that the permit still stands. One that turns out to be finished needs no permit,
// and is not made again: somebody may have written to it by other means since.
func (f *formatter) resume(ctx context.Context, c content, r record) error {
	d, err := f.Host.Disks.Open(f.disk, true)
	var inUse *host.InUseError
	switch {
	case errors.As(err, &inUse):
		return converge.Wait(api.ReasonFormatFailed,
			"volume %s: its format is to be finished, but %v; wait for it to end or stop it", f.v.VolumeID, err)
	case err != nil:
		return f.unreadable(err.Error())
	}
	d.Close() //nolint:gosec // it was read only
	if d, err = f.Host.Disks.Open(f.disk, false); err != nil {
		return f.unreadable(err.Error())
	}
	defer d.Close()
	if c.kind == ours && f.Host.Disks.CheckExt4(ctx, d) == nil {
		f.Log.Info("a format was finished before the journal said so", "volume", f.v.VolumeID, "device", f.disk.Path)
		return f.finished(ctx, r)
	}
	if err := f.Permits.Started(ctx, f.message(r.Permit)); err != nil {
		var waiting *converge.Waiting
		if errors.As(err, &waiting) && waiting.Reason == api.ReasonNoPermit {
			// The permit is void. An operator may have given another.
			return f.overwrite(ctx, &r, "the rest of a format that was begun; "+waiting.Message)
		}
		return f.unanswered("reporting that its format is resumed", err)
	}
	f.Log.Info("resuming a format", "volume", f.v.VolumeID, "device", f.disk.Path, "permit", r.Permit)
	return f.make(ctx, d, r)
}

// make is the only function that writes to a disk, and it is only called with a
// record on disk that says so.
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

// finished notes that the filesystem is on the medium, and was checked.
func (f *formatter) finished(ctx context.Context, r record) error {
	r.Phase = formatted
	if err := f.journal.write(r); err != nil {
		return err
	}
	if err := f.Host.Disks.Announce(ctx, f.disk); err != nil {
		f.Log.Warn("udev was not told of the new filesystem", "device", f.disk.Path, "error", err)
	}
	return nil
}

// report tells that the filesystem is there, until it is known.
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
