package storage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What the blank check reads. All signatures that Linux knows are in the first and the
// last megabytes (GPT and its backup, MBR, LVM, LUKS, md, ZFS, btrfs, xfs, swap, DDF);
// the rest are copies and the data itself.
const (
	page = 4 << 10
	// edge is read at the beginning and at the end: LUKS2 has its second header within
	// the first 8 MiB.
	edge = 8 << 20
	// samples of sampleSize bytes are spread evenly over the disk. One is at every eighth
	// of it, and at the allocation groups that mkfs.xfs makes by default.
	samples    = 1024
	sampleSize = 16 << 10
	// whole is the size up to which a disk is read from end to end.
	whole = 64 << 20
)

// copies are the offsets of further copies of the btrfs superblock.
var copies = []int64{64 << 20, 256 << 30}

// region is a part of a disk, in bytes.
type region struct{ from, to int64 }

// regions are the parts to read of a disk of this size: sorted, disjoint and aligned to
// pages, except at the disk's end.
func regions(size int64) []region {
	if size <= whole {
		return []region{{0, size}}
	}
	list := []region{{0, edge}, {size - edge, size}}
	for _, at := range slices.Concat(backups(size), copies) {
		list = append(list, region{at, at + page})
	}
	for i := range int64(samples) {
		// size/samples first: size*i would overflow on the largest disks.
		at := size/samples*i + size%samples*i/samples
		list = append(list, region{at, at + sampleSize})
	}
	return merge(list, size)
}

// merge aligns the regions, cuts them at size, and joins adjacent ones.
func merge(list []region, size int64) []region {
	for i, r := range list {
		list[i] = region{r.from &^ (page - 1), min((r.to+page-1)&^(page-1), size)}
	}
	slices.SortFunc(list, func(a, b region) int { return cmp.Compare(a.from, b.from) })
	var merged []region
	for _, r := range list {
		if r.from >= size {
			continue
		}
		if last := len(merged) - 1; last >= 0 && r.from <= merged[last].to {
			merged[last].to = max(merged[last].to, r.to)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// notZero says that a disk is not blank.
type notZero struct {
	at int64
	b  byte
}

func (e *notZero) Error() string { return fmt.Sprintf("byte %d is 0x%02x, not 0", e.at, e.b) }

// chunk is how much is read at once.
const chunk = 256 << 10

var zeros [chunk]byte

// checkZero reads the regions of a disk. A *notZero is the first byte that is not zero;
// any other error means that the check could not be completed.
func checkZero(ctx context.Context, d host.Device) (api.BlankCheck, error) {
	var blankCheck api.BlankCheck
	buffer := host.Aligned(chunk)
	for _, r := range regions(d.Disk().Size) {
		blankCheck.Samples++
		for at := r.from; at < r.to; at += chunk {
			if err := ctx.Err(); err != nil {
				return blankCheck, context.Cause(ctx)
			}
			b := buffer[:min(chunk, r.to-at)]
			if n, err := d.ReadAt(b, at); n < len(b) {
				if err == nil {
					err = fmt.Errorf("reading %s at %d: only %d of %d bytes came", d.Disk().Path, at, n, len(b))
				}
				return blankCheck, err
			}
			if !bytes.Equal(b, zeros[:len(b)]) {
				i := slices.IndexFunc(b, func(b byte) bool { return b != 0 })
				return blankCheck, &notZero{at: at + int64(i), b: b[i]}
			}
			blankCheck.BytesRead += int64(len(b))
		}
	}
	return blankCheck, nil
}

// findBackup searches for a copy of an ext4 superblock on a disk whose first one is
// damaged.
func findBackup(d host.Device) (superblock, int64, bool) {
	b := host.Aligned(page)
	for _, at := range backups(d.Disk().Size) {
		aligned := at &^ (page - 1)
		n, _ := d.ReadAt(b[:min(page, d.Disk().Size-aligned)], aligned)
		if from := int(at - aligned); n >= from+superblockSize {
			if sb, ok := parseSuperblock(b[from : from+superblockSize]); ok && sb.Group != 0 {
				return sb, at, true
			}
		}
	}
	return superblock{}, 0, false
}
