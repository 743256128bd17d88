package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// kind is what a disk holds. The zero value is that it is not known.
type kind int

const (
	unknown kind = iota
	// ours: a whole ext4 with the UUID that was assigned to the volume.
	ours
	// blank: everything that was read is zero, and nobody uses it.
	blank
	// foreign: anything else.
	foreign
)

// content is what was found on a disk.
type content struct {
	kind kind
	// what was found, for people: of foreign what it is, of unknown why.
	what string
	// proof of blank.
	proof api.BlankCheck
	// used: ours has been mounted since it was made.
	used bool
	// claimed: foreign is something that was made there by purpose, with a signature
	// or a user, and not just bytes that mkfs may have left when it was killed.
	claimed bool
	// adoptable is the UUID of foreign where an operator can adopt it.
	adoptable string
	// repair is the command that may make foreign what it was, "" for none.
	repair string
}

func unknownBecause(err error) content { return content{kind: unknown, what: err.Error()} }

// look finds out what a disk holds. It only reads. before is what was found there last.
func look(ctx context.Context, disks host.Disks, disk host.Disk, uuid string, before kind) content {
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
		return lookAtOurs(ctx, disks, d, sb, use)
	}
	if what := users(use); what != "" {
		return content{kind: foreign, what: what, claimed: true}
	}
	c := lookAtOthers(ctx, disks, d, uuid, before)
	if c.adoptable != "" && !sb.Whole {
		// blkid says so only since util-linux 2.39, and what is adopted has to be whole.
		c.adoptable, c.repair = "", "e2fsck "+disk.Path
		c.what += " whose superblock is damaged"
	}
	return c
}

// lookAtOurs wants blkid to see the same filesystem, which also checks the
// superblock's checksum, and the disk to be large enough for it.
func lookAtOurs(ctx context.Context, disks host.Disks, d host.Device, sb superblock, use host.Use) content {
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
		// What mkfs left when it was killed looks like this too, but nobody has used that.
		return content{kind: foreign, what: assigned + " that is damaged", claimed: sb.Used, repair: "e2fsck " + d.Disk().Path}
	case tags["TYPE"] != "ext4" || !strings.EqualFold(tags["UUID"], sb.UUID) || tags["PTTYPE"] != "":
		return content{kind: foreign, what: assigned + ", in which blkid sees " + describe(tags), claimed: true}
	case sb.Journal:
		return content{kind: foreign, what: "the journal of another filesystem, with the assigned UUID", claimed: true}
	case sb.Size == 0 || sb.Size > uint64(d.Disk().Size):
		return content{kind: foreign, what: fmt.Sprintf("the assigned filesystem, which has %d bytes, on a disk of %d", sb.Size, d.Disk().Size), claimed: true}
	case len(use.Partitions)+len(use.Holders) > 0 || use.Swap:
		return content{kind: foreign, what: "the assigned filesystem, and " + users(host.Use{Partitions: use.Partitions, Holders: use.Holders, Swap: use.Swap}), claimed: true}
	}
	if err := d.Same(); err != nil {
		return unknownBecause(err)
	}
	return content{kind: ours, what: "the assigned filesystem", used: sb.Used || len(use.Mounts) > 0}
}

// lookAtOthers proves that a disk is blank, or says why it is not. The first time it
// takes the disk for itself only after it was found blank, and not for a moment before,
// or who repairs a disk would be told that it is in use. A disk that was blank before is
// read while nobody else can mount it or make it part of another: that is the proof
// with which it is formatted.
func lookAtOthers(ctx context.Context, disks host.Disks, d host.Device, uuid string, before kind) content {
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

// examine reads a disk that is not ours until there is something on it, or to the end.
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
	proof, err := proveZero(ctx, d)
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
	return content{kind: blank, what: "nothing", proof: proof}
}

// rawData tells a damaged ext4 from bytes that nobody knows.
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

// describe says in words what blkid found.
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

// users says in words who uses a disk, "" for nobody.
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
