package host

import (
	"context"
	"fmt"
	"io"
)

// Number is a device number (major:minor).
type Number struct{ Major, Minor uint32 }

func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// Disk is a block device as it was found.
type Disk struct {
	// Path is the stable link to it (/dev/disk/by-id/…), or its node if it was not found by
	// a link.
	Path string
	// Node is its device node now, such as /dev/vdb; it says nothing about which
	// volume it is.
	Node   string
	Number Number
	// Size in bytes.
	Size int64
	// Sequence is the kernel's number of this disk (diskseq, Linux 5.15). It is unique until
	// the next boot, even if another disk gets the same node. 0 = the kernel has none.
	Sequence uint64
}

// Use describes how a disk is used, other than by reading it.
type Use struct {
	// Holders are devices on top of it (device-mapper, md, …), Partitions those in it.
	Holders, Partitions []string
	Swap                bool
	Mounts              []Mount
}

// Disks are the block devices.
type Disks interface {
	// ByVolumeID finds the disks whose serial is a Cinder volume id, by udev's links. Several
	// links to one device are one disk.
	ByVolumeID(id string) ([]Disk, error)
	// All is every block device that can contain a filesystem, partitions too.
	All() ([]Disk, error)
	// Use returns how the disk is used.
	Use(d Disk) (Use, error)
	// Open opens the disk for reading and keeps it open. *InUseError if claim is set and another
	// program has claimed it; *SwappedError if it is no longer the disk d.
	Open(d Disk, claim bool) (Device, error)
	// Identify is what blkid finds (`blkid -p`), keyed as blkid does (TYPE, UUID,
	// PTTYPE, …); empty if it finds nothing. A conflict of several signatures is an
	// *AmbivalentError.
	Identify(ctx context.Context, d Device) (map[string]string, error)
	// Signatures is what wipefs would wipe (`wipefs -n`).
	Signatures(ctx context.Context, d Device) ([]string, error)
	// Erase removes every signature that wipefs knows, a partition table and its
	// backup too, and makes the kernel forget the partitions.
	Erase(ctx context.Context, d Device) error
	// MakeExt4 makes a filesystem, whatever is on the disk; the caller has checked that the
	// disk is blank. On return it is on the medium.
	MakeExt4(ctx context.Context, d Device, uuid string) error
	// CheckExt4 writes out the cache and then checks the filesystem on the medium. It changes
	// nothing.
	CheckExt4(ctx context.Context, d Device) error
	// GrowExt4 grows the filesystem of the disk, which is mounted at point, to the size of
	// the disk. It stays mounted; one that is not mounted there is not changed. On return
	// the new size is on the medium. After a crash it is intact, and has any size up to
	// that of the disk.
	GrowExt4(ctx context.Context, d Device, point string) error
	// Announce makes udev probe the disk again and waits until it has. It does nothing if
	// udev does not run.
	Announce(ctx context.Context, d Disk) error
}

// Device is an open disk. While it is open its device number cannot be given to
// another disk, so opening the device opens this disk or fails.
type Device interface {
	// ReadAt reads from the medium, never from a cache. Offset and length are
	// multiples of Block.
	io.ReaderAt
	io.Closer
	Disk() Disk
	// Block is the size of the unit of reading, in bytes.
	Block() int
	// Same returns nil while the path, the number, the sequence and the size are still those
	// of the disk that was opened, else a *SwappedError.
	Same() error
}

// InUseError says that a disk is in use: it is mounted, swap, part of another device, or
// being formatted.
type InUseError struct{ Disk Disk }

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s (%s) is in use by the system or another program", e.Disk.Path, e.Disk.Node)
}

// SwappedError says that a path no longer leads to the disk that was inspected.
type SwappedError struct {
	Disk  Disk
	Found string
}

func (e *SwappedError) Error() string {
	return fmt.Sprintf("%s is not the disk it was (%s, %d bytes, sequence %d): %s",
		e.Disk.Path, e.Disk.Number, e.Disk.Size, e.Disk.Sequence, e.Found)
}

// AmbivalentError says that a disk carries signatures that contradict one another.
type AmbivalentError struct{ Disk Disk }

func (e *AmbivalentError) Error() string {
	return e.Disk.Path + " carries the signatures of more than one kind of content"
}
