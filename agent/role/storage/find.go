package storage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// smallest is the smallest size for which mkfs.ext4 makes a journal (2048 blocks).
// Without a journal a power cut may damage the filesystem.
const smallest = 2048 * 4096

// find returns the one disk of a volume. It only reads.
func (s *steps) find(v *api.StorageVolume) (host.Disk, error) {
	found, err := s.Host.Disks.ByVolumeID(v.VolumeID)
	switch {
	case err != nil:
		return host.Disk{}, converge.Wait(api.ReasonUnreadable, "volume %s: %v", v.VolumeID, err)
	case len(found) == 0:
		return host.Disk{}, converge.Wait(api.ReasonWaitingForDevice,
			"volume %s: no disk with its id is attached (no link in /dev/disk/by-id); attach it to this server", v.VolumeID)
	case len(found) > 1:
		return host.Disk{}, converge.Fail(api.ReasonAmbiguousDevice,
			"volume %s: %s have its id; expected one disk; none of them is changed: detach those that are not the volume", v.VolumeID, list(found))
	}
	disk := found[0]
	if disk.Size < smallest {
		return host.Disk{}, converge.Fail(api.ReasonSizeMismatch,
			"volume %s: %s has %d bytes, expected at least %d, for a filesystem with a journal; attach a larger volume",
			v.VolumeID, disk.Path, disk.Size, smallest)
	}
	return disk, s.alone(v, disk)
}

// alone fails if another disk has the volume's filesystem UUID: a clone or a snapshot
// attached beside its source. The agent finds the volume by its id, but a mount by UUID
// could use either disk, and the clone is probably attached by mistake.
func (s *steps) alone(v *api.StorageVolume, disk host.Disk) error {
	all, err := s.Host.Disks.All()
	if err != nil {
		return converge.Wait(api.ReasonUnreadable, "volume %s: %v", v.VolumeID, err)
	}
	for _, other := range all {
		if other.Number == disk.Number || other.Size < superblockOffset+superblockSize {
			continue
		}
		if sb, err := s.filesystemOn(other); err == nil && sb.UUID == v.FilesystemUUID {
			return converge.Fail(api.ReasonAmbiguousDevice,
				"volume %s: its filesystem %s is on %s and on %s; detach the copy, or give it another UUID (`tune2fs -U random`)",
				v.VolumeID, v.FilesystemUUID, disk.Path, other.Node)
		}
	}
	return nil
}

var errNoFilesystem = errors.New("no ext4 superblock")

// filesystemOn is the superblock of the ext4 filesystem on a disk.
func (s *steps) filesystemOn(disk host.Disk) (superblock, error) {
	d, err := s.Host.Disks.Open(disk, false)
	if err != nil {
		return superblock{}, err
	}
	defer d.Close()
	sb, found, err := firstSuperblock(d)
	if err == nil && !found {
		err = errNoFilesystem
	}
	return sb, err
}

// confirm fails if the disk does not have the volume's filesystem. It is called right
// before and right after the disk is mounted.
func (s *steps) confirm(v *api.StorageVolume, disk host.Disk) error {
	sb, err := s.filesystemOn(disk)
	if err != nil {
		return fmt.Errorf("volume %s: reading the superblock of %s: %w", v.VolumeID, disk.Path, err)
	}
	return expect(v, disk, sb)
}

// expect fails if the filesystem on a disk is not the volume's.
func expect(v *api.StorageVolume, disk host.Disk, sb superblock) error {
	if sb.UUID == v.FilesystemUUID {
		return nil
	}
	return fmt.Errorf("volume %s: %s holds the filesystem %s, expected %s", v.VolumeID, disk.Path, sb.UUID, v.FilesystemUUID)
}

func list(disks []host.Disk) string {
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = fmt.Sprintf("%s (%s, %d bytes)", d.Path, d.Node, d.Size)
	}
	return strings.Join(names, " and ")
}
