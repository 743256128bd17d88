package storage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Messages of volumes that are not formatted.

// refused: the disk contains other content. An operator has to act.
func (f *formatter) refused(r *record, found string) error {
	if r.unfinished() {
		return converge.Fail(api.ReasonFormatInterrupted,
			"volume %s: %s is not changed: %s; check what it holds; `hitchctl volume reformat %s` permits a new format, which erases it",
			f.v.VolumeID, f.disk.Path, found, f.v.VolumeID)
	}
	if f.found.cutOff > 0 {
		return shrunk(f.v, f.disk, f.found.cutOff)
	}
	if f.v.FormatInterruptedBy != "" {
		return converge.Fail(api.ReasonFormatInterrupted,
			"volume %s: the server %s had the permit to format it and disappeared before it reported the end; %s holds %s, and is not changed: "+
				"check what it holds; `hitchctl volume reformat %s` permits a new format, which erases it",
			f.v.VolumeID, f.v.FormatInterruptedBy, f.disk.Path, found, f.v.VolumeID)
	}
	keep := "copy what you need of it elsewhere, then"
	var adoptable []api.AdoptableVolume
	switch {
	case f.found.adoptable != "":
		keep = "keep it with `hitchctl volume adopt " + f.v.VolumeID + " --filesystem-uuid " + f.found.adoptable + "`, or"
		adoptable = []api.AdoptableVolume{{VolumeID: f.v.VolumeID, FilesystemUUID: f.found.adoptable}}
	case f.found.repair != "":
		keep = "repair it on the server with `" + f.found.repair + "`, or"
	}
	return &converge.Terminal{Reason: api.ReasonForeignData, Adoptable: adoptable, Message: fmt.Sprintf(
		"volume %s: %s holds %s; expected a blank disk or the ext4 filesystem %s: %s erase it with `hitchctl volume reformat %s`",
		f.v.VolumeID, f.disk.Path, found, f.v.FilesystemUUID, keep, f.v.VolumeID)}
}

// mismatched: the disk does not have the size that the document says. A format that has
// begun on it keeps its journal: whatever the disk contains came from that.
func (f *formatter) mismatched(r *record) error {
	if f.found.cutOff > 0 {
		return shrunk(f.v, f.disk, f.found.cutOff)
	}
	if f.disk.Size < f.v.SizeBytes {
		return smaller(f.v, f.disk)
	}
	after := ""
	if r.unfinished() {
		after = "; " + unfinishedFormat + ", and its journal is kept: check what the disk holds; after the new size was sent, `hitchctl volume reformat " +
			f.v.VolumeID + "` permits a new format, which erases it"
	}
	return converge.Fail(api.ReasonSizeMismatch,
		"volume %s: %s has %d bytes, expected %d; check that the right volume is attached; if it was extended, send its new size in the topology%s",
		f.v.VolumeID, f.disk.Path, f.disk.Size, f.v.SizeBytes, after)
}

// shrunk: the end of the filesystem is missing.
func shrunk(v *api.StorageVolume, disk host.Disk, filesystem int64) error {
	return converge.Fail(api.ReasonSizeMismatch,
		"volume %s: %s has %d bytes, expected at least %d, the size of the filesystem on it: the disk has shrunk, or is a copy of a part; it is not changed: "+
			"give the volume its size back, or restore it from a backup", v.VolumeID, disk.Path, disk.Size, filesystem)
}

// smaller: the disk is smaller than the volume. It may contain all of its filesystem.
func smaller(v *api.StorageVolume, disk host.Disk) error {
	return converge.Fail(api.ReasonSizeMismatch,
		"volume %s: %s has %d bytes, expected %d; it is not changed: check that the right volume is attached; "+
			"if it was extended, this server does not know yet: detach the volume and attach it again, or restart the server",
		v.VolumeID, disk.Path, disk.Size, v.SizeBytes)
}

// unreadable: the content is unknown, so the disk is not changed.
func (f *formatter) unreadable(why string) error {
	return converge.Wait(api.ReasonUnreadable, "volume %s: the agent cannot tell what %s holds, so it does not format it: %s", f.v.VolumeID, f.disk.Path, why)
}

// unanswered returns the refusal of a permit, or that there was no answer.
func (f *formatter) unanswered(doing string, err error) error {
	var waiting *converge.Waiting
	var final *converge.Terminal
	named := func(message string) string {
		if strings.Contains(message, f.v.VolumeID) {
			return message
		}
		return "volume " + f.v.VolumeID + ": " + message
	}
	switch {
	case errors.As(err, &final):
		return converge.Fail(final.Reason, "%s", named(final.Message))
	case errors.As(err, &waiting):
		return converge.Wait(waiting.Reason, "%s", named(waiting.Message))
	}
	return converge.Wait(api.ReasonNoPermit, "volume %s: %s: %v", f.v.VolumeID, doing, err)
}

// failed: the format failed; the next pass resumes it.
func (f *formatter) failed(err error) error {
	return converge.Wait(api.ReasonFormatFailed, "volume %s: formatting %s: %v; the agent tries again", f.v.VolumeID, f.disk.Path, err)
}
