package storage

import (
	"errors"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The sentences with which a volume is not formatted.

// refused: the disk holds something. It is a person's turn.
func (f *formatter) refused(r *record, found string) error {
	if r.unfinished() {
		return converge.Fail(api.ReasonFormatInterrupted,
			"volume %s: %s is not touched: %s; look at it, then `hitchctl volume reformat %s` permits a new format, which loses what it holds",
			f.v.VolumeID, f.disk.Path, found, f.v.VolumeID)
	}
	if f.v.FormatInterruptedBy != "" {
		return converge.Fail(api.ReasonFormatInterrupted,
			"volume %s: the server %s was permitted to format it and went before it reported the end; %s holds %s, and is not touched: "+
				"look at it, then `hitchctl volume reformat %s` permits a new format, which loses what it holds",
			f.v.VolumeID, f.v.FormatInterruptedBy, f.disk.Path, found, f.v.VolumeID)
	}
	keep := "save what is needed of it elsewhere, then"
	switch {
	case f.found.adoptable != "":
		keep = "keep it with `hitchctl volume adopt " + f.v.VolumeID + " --filesystem-uuid " + f.found.adoptable + "`, or"
	case f.found.repair != "":
		keep = "repair it on the server with `" + f.found.repair + "`, or"
	}
	return converge.Fail(api.ReasonForeignData,
		"volume %s: %s holds %s; expected a blank disk or the ext4 filesystem %s: %s lose what it holds with `hitchctl volume reformat %s`",
		f.v.VolumeID, f.disk.Path, found, f.v.FilesystemUUID, keep, f.v.VolumeID)
}

// unreadable: nothing is known, so nothing is done.
func (f *formatter) unreadable(why string) error {
	return converge.Wait(api.ReasonUnreadable, "volume %s: it is not known what %s holds, so it is not formatted: %s", f.v.VolumeID, f.disk.Path, why)
}

// unanswered passes on what the permits say, or that they say nothing.
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

// failed: the format was begun; the next pass resumes it.
func (f *formatter) failed(err error) error {
	return converge.Wait(api.ReasonFormatFailed, "volume %s: formatting %s: %v; it is tried again", f.v.VolumeID, f.disk.Path, err)
}
