package storage

import (
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// decision is what may be done with a disk. The zero value is nothing.
type decision int

const (
	// wait: it is not known what the disk holds.
	wait decision = iota
	// keep: the filesystem is there; mount it, never format it.
	keep
	// format: the disk is blank. A permit is still needed.
	format
	// resume: this node began to format it under a permit, and has not finished.
	resume
	// refuse: the disk holds something. Only an operator's permit to overwrite helps.
	refuse
)

// decide is the one place where it is decided whether a disk may be written to. It
// returns why, for people.
//
// A format that was begun outranks what the disk looks like, for a killed mkfs
// leaves anything. It does not outrank what mkfs cannot have left: a filesystem that
// has been mounted since, or the signature or the user of something else. Then
// somebody used the disk after the format was begun (a restored root disk brings an
// old journal along), and it is left alone. An operator's permit to overwrite
// outranks the signature of something else, which is what it was given for, and not
// the assigned filesystem in use: that is what came of it.
func decide(c content, r *record, v *api.StorageVolume, disk host.Disk, nodeID string) (decision, string) {
	if r.unfinished() {
		return decideUnfinished(c, r, r.misfit(v, disk, nodeID))
	}
	switch c.kind {
	case ours:
		return keep, c.what
	case blank:
		return format, "it is blank"
	case foreign:
		return refuse, c.what
	case unknown:
		return wait, c.what
	}
	return wait, "a bug in the agent: content of no kind"
}

func decideUnfinished(c content, r *record, misfit string) (decision, string) {
	mayOverwrite := misfit == "" && r.Overwrite
	switch c.kind {
	case ours:
		switch {
		case c.used:
			return keep, c.what
		case misfit != "":
			return refuse, misfit
		}
		return resume, "its format was begun and not finished"
	case blank:
		if misfit != "" {
			return refuse, misfit
		}
		return resume, "its format was begun and not finished"
	case foreign:
		switch {
		case misfit != "":
			return refuse, misfit + "; it holds " + c.what
		case c.claimed && !mayOverwrite:
			return refuse, "its format was begun and not finished, and since then somebody put something else on it: " + c.what
		}
		return resume, "its format was begun and not finished"
	case unknown:
		return wait, c.what
	}
	return wait, "a bug in the agent: content of no kind"
}
