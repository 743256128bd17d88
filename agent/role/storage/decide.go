package storage

import (
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// decision is what may be done with a disk. The zero value is nothing.
type decision int

const (
	// wait: the content of the disk is unknown.
	wait decision = iota
	// keep: the disk has its filesystem; mount it, never format it.
	keep
	// format: the disk is blank. A permit is still needed.
	format
	// resume: this node began to format it with a permit, and has not finished.
	resume
	// refuse: the disk contains other content. Only an operator's permit to overwrite helps.
	refuse
	// mismatch: the disk does not have the size of the volume.
	mismatch
)

// unfinishedFormat is why a format is resumed.
const unfinishedFormat = "a format of it has begun and is not finished"

// decide alone decides whether a disk may be formatted or mounted. It also returns the
// reason, for people. A disk of another size than the document says is not the volume,
// unless it contains the volume's filesystem and is larger: then the volume was extended.
// A disk that is too small for any volume is refused by find.
func decide(c content, r *record, v *api.StorageVolume, disk host.Disk, nodeID string) (decision, string) {
	what, why := decideContent(c, r, v, disk, nodeID)
	if v.SizeBytes != 0 && disk.Size != v.SizeBytes && (what != keep || disk.Size < v.SizeBytes) {
		return mismatch, why
	}
	return what, why
}

// decideContent decides by what the disk contains.
//
// An unfinished format outranks the content of the disk, because a killed mkfs may
// leave anything. It does not outrank what mkfs cannot have left: a filesystem that has
// been mounted since, or the signature or the user of something else. Such a disk was
// used after the format began (a restored root disk brings an old journal with it), and
// is not changed. An operator's permit to overwrite outranks the signature of something
// else, which it was given for. It does not outrank the assigned filesystem in use,
// which is its result.
func decideContent(c content, r *record, v *api.StorageVolume, disk host.Disk, nodeID string) (decision, string) {
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
		return resume, unfinishedFormat
	case blank:
		if misfit != "" {
			return refuse, misfit
		}
		return resume, unfinishedFormat
	case foreign:
		switch {
		case misfit != "":
			return refuse, misfit + "; it holds " + c.what
		case c.claimed && !mayOverwrite:
			return refuse, unfinishedFormat + ", and since then other content was put on it: " + c.what
		}
		return resume, unfinishedFormat
	case unknown:
		return wait, c.what
	}
	return wait, "a bug in the agent: content of no kind"
}
