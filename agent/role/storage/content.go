package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// kind is the kind of content of a disk. The zero value is unknown.
type kind int

const (
	unknown kind = iota
	// ours: an intact ext4 with the UUID that is assigned to the volume.
	ours
	// blank: every byte that was read is zero, and the disk is not in use.
	blank
	// foreign: anything else.
	foreign
)

// content is what was found on a disk.
type content struct {
	kind kind
	// what describes the content for people; for unknown, it is the reason.
	what string
	// blankCheck is set if the disk is blank.
	blankCheck api.BlankCheck
	// used: the filesystem, which is ours, has been mounted since it was made.
	used bool
	// claimed: the foreign content was put there deliberately (it has a signature or is
	// in use); it is not only bytes that a killed mkfs may have left.
	claimed bool
	// adoptable is the UUID of a foreign filesystem that an operator can adopt.
	adoptable string
	// repair is the command that may repair foreign content, "" for none.
	repair string
	// cutOff is the size of the assigned filesystem if the disk is too small for it.
	cutOff int64
}

func unknownBecause(err error) content { return content{kind: unknown, what: err.Error()} }

// inspect determines what a disk contains. It only reads. before is the previous result.
func inspect(ctx context.Context, disks host.Disks, disk host.Disk, uuid string, before kind) content {
	d, err := disks.Open(disk, false)
	if err != nil {
		return unknownBecause(err)
	}
	defer d.Close()
	sb, found, err := firstSuperblock(d)
	if err != nil {
		return unknownBecause(err)
	}
	use, err := disks.Use(disk)
	if err != nil {
		return unknownBecause(err)
	}
	if found && sb.UUID == uuid {
		return inspectOurs(ctx, disks, d, sb, use)
	}
	if what := users(use); what != "" {
		return content{kind: foreign, what: what, claimed: true}
	}
	c := inspectOthers(ctx, disks, d, uuid, before)
	// A mkfs that has outlived its agent may have written the superblock since.
	switch later, found, err := firstSuperblock(d); {
	case err != nil:
		return unknownBecause(err)
	case found && later.UUID == uuid:
		return content{kind: unknown, what: "the assigned filesystem was written while the agent read it"}
	}
	if c.adoptable != "" && !sb.Whole {
		// blkid reports this only since util-linux 2.39, and only an intact filesystem can
		// be adopted.
		c.adoptable, c.repair = "", "e2fsck "+disk.Path
		c.what += " whose superblock is damaged"
	}
	return c
}

// inspectOurs checks that blkid finds the same filesystem, which includes the
// superblock's checksum, and that the disk is large enough for it.
func inspectOurs(ctx context.Context, disks host.Disks, d host.Device, sb superblock, use host.Use) content {
	tags, err := disks.Identify(ctx, d)
	var ambivalent *host.AmbivalentError
	switch {
	case errors.As(err, &ambivalent):
		return content{kind: foreign, what: "the assigned ext4 filesystem beside the signature of something else", claimed: true}
	case err != nil:
		return unknownBecause(err)
	}
	const assigned = "a superblock with the assigned filesystem UUID"
	switch {
	case len(tags) == 0 || !sb.Whole:
		// A killed mkfs may leave this too, but such a filesystem was never used.
		return content{kind: foreign, what: assigned + " that is damaged", claimed: sb.Used, repair: "e2fsck " + d.Disk().Path}
	case tags["TYPE"] != "ext4" || !strings.EqualFold(tags["UUID"], sb.UUID) || tags["PTTYPE"] != "":
		return content{kind: foreign, what: assigned + ", in which blkid sees " + describe(tags), claimed: true}
	case sb.Journal:
		return content{kind: foreign, what: "the journal of another filesystem, with the assigned UUID", claimed: true}
	case sb.Size == 0 || sb.Size > uint64(d.Disk().Size):
		return content{kind: foreign, what: "the assigned filesystem, cut off", claimed: true, cutOff: int64(sb.Size)}
	case len(use.Partitions)+len(use.Holders) > 0 || use.Swap:
		return content{kind: foreign, what: "the assigned filesystem, and " + users(host.Use{Partitions: use.Partitions, Holders: use.Holders, Swap: use.Swap}), claimed: true}
	}
	if err := d.Same(); err != nil {
		return unknownBecause(err)
	}
	return content{kind: ours, what: "the assigned filesystem", used: sb.Used || len(use.Mounts) > 0}
}

// inspectOthers checks whether a disk without our filesystem is blank. A disk that was
// not blank before is opened exclusively only after it was found blank, so that repair
// tools are not told that it is in use. A disk that was blank before is read while it
// is open exclusively, so that no other program can mount or use it: this is the blank
// check that precedes a format.
func inspectOthers(ctx context.Context, disks host.Disks, d host.Device, uuid string, before kind) content {
	var c content
	if before != blank {
		if c = examine(ctx, disks, d, uuid); c.kind != blank {
			return c
		}
	}
	claimed, err := disks.Open(d.Disk(), true)
	if err != nil {
		return unknownBecause(err)
	}
	defer claimed.Close()
	if before != blank {
		return c
	}
	return examine(ctx, disks, claimed, uuid)
}

// examine reads a disk that is not ours until it finds content, or to the end.
func examine(ctx context.Context, disks host.Disks, d host.Device, uuid string) content {
	tags, err := disks.Identify(ctx, d)
	var ambivalent *host.AmbivalentError
	switch {
	case errors.As(err, &ambivalent):
		return content{kind: foreign, what: "the signatures of more than one kind of content (`wipefs " + d.Disk().Path + "` lists them)", claimed: true}
	case err != nil:
		return unknownBecause(err)
	case len(tags) > 0:
		return content{kind: foreign, what: describe(tags), claimed: true, adoptable: adoptable(tags)}
	}
	signatures, err := disks.Signatures(ctx, d)
	switch {
	case err != nil:
		return unknownBecause(err)
	case len(signatures) > 0:
		return content{kind: foreign, what: "the signature of " + strings.Join(signatures, ", "), claimed: true}
	}
	blankCheck, err := checkZero(ctx, d)
	var data *notZero
	switch {
	case errors.As(err, &data):
		return rawData(d, data, uuid)
	case err != nil:
		return unknownBecause(err)
	}
	if err := d.Same(); err != nil {
		return unknownBecause(err)
	}
	return content{kind: blank, what: "nothing", blankCheck: blankCheck}
}

// rawData distinguishes a damaged ext4 from unknown data.
func rawData(d host.Device, data *notZero, uuid string) content {
	if sb, at, found := findBackup(d); found {
		return content{
			kind:    foreign,
			what:    fmt.Sprintf("what is left of the ext4 filesystem %s: its first superblock is damaged, and there is a copy at byte %d", sb.UUID, at),
			claimed: sb.UUID != uuid,
			repair:  fmt.Sprintf("e2fsck -b %d -B %d %s", at/sb.Block, sb.Block, d.Disk().Path),
		}
	}
	return content{kind: foreign, what: "data without a signature: " + data.Error()}
}

// adoptable is the UUID of an ext4 that has the disk for itself.
func adoptable(tags map[string]string) string {
	if tags["TYPE"] != "ext4" || tags["PTTYPE"] != "" {
		return ""
	}
	return tags["UUID"]
}

// describe describes what blkid found.
func describe(tags map[string]string) string {
	var what []string
	if t := tags["TYPE"]; t != "" {
		text := "content of type " + t
		if u := tags["UUID"]; u != "" {
			text += " (UUID " + u + ")"
		}
		what = append(what, text)
	}
	if t := tags["PTTYPE"]; t != "" {
		what = append(what, "a partition table ("+t+")")
	}
	if len(what) == 0 {
		return "content that blkid knows"
	}
	return strings.Join(what, " and ")
}

// users describes the users of a disk, "" for none.
func users(use host.Use) string {
	var what []string
	for _, m := range use.Mounts {
		what = append(what, fmt.Sprintf("a %s that is mounted at %s", m.FSType, m.Point))
	}
	if use.Swap {
		what = append(what, "swap in use")
	}
	if len(use.Partitions) > 0 {
		what = append(what, "partitions ("+strings.Join(use.Partitions, ", ")+")")
	}
	if len(use.Holders) > 0 {
		what = append(what, "a part of "+strings.Join(use.Holders, ", "))
	}
	return strings.Join(what, " and ")
}
