package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// superblock is what is read of an ext4 superblock (Documentation/filesystems/ext4
// of Linux, struct ext4_super_block).
type superblock struct {
	UUID string
	// Size is that of the filesystem in bytes, Block that of its blocks.
	Size  uint64
	Block int64
	// Group is the block group that this copy is in, 0 for the first.
	Group uint16
	// Used says that the filesystem has been mounted since it was made.
	Used bool
	// Journal says that this is another filesystem's journal.
	Journal bool
	// Dirty says that the next mount replays its journal.
	Dirty bool
	// Whole says that the checksum is right, or that there is none. (blkid checks it
	// only since util-linux 2.39.)
	Whole bool
}

const (
	superblockOffset = 1024
	superblockSize   = 1024
	ext4Magic        = 0xEF53
	incompatRecover  = 0x4
	incompatJournal  = 0x8
	incompat64Bit    = 0x80
	roCompatChecksum = 0x400
	checksumOffset   = 0x3FC
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parseSuperblock parses a superblock of 1024 bytes; false if it is none. It does not
// check that the filesystem is intact.
func parseSuperblock(b []byte) (superblock, bool) {
	le := binary.LittleEndian
	if len(b) < superblockSize || le.Uint16(b[0x38:]) != ext4Magic {
		return superblock{}, false
	}
	logBlockSize := le.Uint32(b[0x18:])
	if logBlockSize > 6 { // 64 KiB
		return superblock{}, false
	}
	blocks, incompat := uint64(le.Uint32(b[0x04:])), le.Uint32(b[0x60:])
	if incompat&incompat64Bit != 0 {
		blocks |= uint64(le.Uint32(b[0x150:])) << 32
	}
	if blocks >= 1<<48 {
		return superblock{}, false
	}
	// Linux omits the inversion at the end.
	checksum := ^crc32.Checksum(b[:checksumOffset], castagnoli)
	return superblock{
		UUID:    uuid.UUID(b[0x68:0x78]).String(),
		Size:    blocks << (10 + logBlockSize),
		Block:   1024 << logBlockSize,
		Group:   le.Uint16(b[0x5A:]),
		Used:    le.Uint32(b[0x2C:]) != 0 || le.Uint16(b[0x34:]) != 0,
		Journal: incompat&incompatJournal != 0,
		Dirty:   incompat&incompatRecover != 0,
		Whole:   le.Uint32(b[0x64:])&roCompatChecksum == 0 || le.Uint32(b[checksumOffset:]) == checksum,
	}, true
}

// firstSuperblock reads the superblock that a mount would use.
func firstSuperblock(d host.Device) (superblock, bool, error) {
	b := host.Aligned(page)
	n, err := d.ReadAt(b, 0)
	if n < superblockOffset+superblockSize {
		if err == nil {
			err = fmt.Errorf("reading the superblock of %s: only %d bytes are there", d.Disk().Path, n)
		}
		return superblock{}, false, err
	}
	sb, ok := parseSuperblock(b[superblockOffset : superblockOffset+superblockSize])
	return sb, ok, nil
}

// backups are the offsets of all copies of the superblock that mkfs may have written
// to a disk of this size: for every block size, in the groups 1 and the powers of 3, 5
// and 7 (sparse_super), and in the last group (sparse_super2).
func backups(size int64) []int64 {
	var offsets []int64
	for block := int64(1024); block <= 64<<10; block *= 2 {
		groupSize := 8 * block * block // one block of bitmap has a bit for each block
		first := int64(0)
		if block == 1024 {
			first = block // block 0 is left to the boot loader
		}
		groups := (size - first + groupSize - 1) / groupSize
		add := func(group int64) {
			if at := first + group*groupSize; group > 0 && group < groups && at+superblockSize <= size {
				offsets = append(offsets, at)
			}
		}
		add(1)
		add(groups - 1)
		for _, base := range []int64{3, 5, 7} {
			for group := base; group < groups; group *= base {
				add(group)
			}
		}
	}
	return offsets
}
