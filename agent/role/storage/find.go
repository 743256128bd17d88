package storage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// smallest is the size from which on mkfs.ext4 makes a journal (2048 blocks). What a
// power cut leaves of a filesystem without one is a matter of luck.
const smallest = 2048 * 4096

// find is the one disk of a volume. It reads only.
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
			"volume %s: %s answer to its id; expected one disk, and none of them is touched: detach those that are not the volume", v.VolumeID, list(found))
	}
	disk := found[0]
	if v.SizeBytes != 0 && disk.Size != v.SizeBytes {
		return host.Disk{}, converge.Fail(api.ReasonSizeMismatch,
			"volume %s: %s has %d bytes, expected %d; check that the right volume is attached, or give its size in the topology anew after it was extended",
			v.VolumeID, disk.Path, disk.Size, v.SizeBytes)
	}
	if disk.Size < smallest {
		return host.Disk{}, converge.Fail(api.ReasonSizeMismatch,
			"volume %s: %s has %d bytes, expected at least %d, for a filesystem with a journal; attach a larger volume",
			v.VolumeID, disk.Path, disk.Size, smallest)
	}
	return disk, s.alone(v, disk)
}

// alone fails where another disk carries the volume's filesystem UUID: a clone or a
// snapshot beside its source. The disk is found by its id, so there is no doubt
// which is the volume; but a mount by UUID, by a person or a program, could take
// either, and a clone that is attached here is hardly meant to be.
func (s *steps) alone(v *api.StorageVolume, disk host.Disk) error {
	all, err := s.Host.Disks.All()
	if err != nil {
		return converge.Wait(api.ReasonUnreadable, "volume %s: %v", v.VolumeID, err)
	}
	for _, other := range all {
		if other.Number == disk.Number || other.Size < superblockOffset+superblockSize {
			continue
		}
		if uuid, err := s.filesystemOn(other); err == nil && uuid == v.FilesystemUUID {
			return converge.Fail(api.ReasonAmbiguousDevice,
				"volume %s: its filesystem %s is on %s and on %s; detach the copy, or give it another UUID (`tune2fs -U random`)",
				v.VolumeID, v.FilesystemUUID, disk.Path, other.Node)
		}
	}
	return nil
}

var errNoFilesystem = errors.New("no ext4 superblock")

// filesystemOn is the UUID of the ext4 filesystem on a disk.
func (s *steps) filesystemOn(disk host.Disk) (string, error) {
	d, err := s.Host.Disks.Open(disk, false)
	if err != nil {
		return "", err
	}
	defer d.Close()
	sb, found, err := firstSuperblock(d)
	if err == nil && !found {
		err = errNoFilesystem
	}
	return sb.UUID, err
}

// confirm fails where the disk is not the volume's, or not one with its filesystem.
// It is asked right before and right after the disk is mounted.
func (s *steps) confirm(v *api.StorageVolume, disk host.Disk) error {
	uuid, err := s.filesystemOn(disk)
	switch {
	case err != nil:
		return fmt.Errorf("volume %s: reading the superblock of %s: %w", v.VolumeID, disk.Path, err)
	case uuid != v.FilesystemUUID:
		return fmt.Errorf("volume %s: %s holds the filesystem %s, expected %s", v.VolumeID, disk.Path, uuid, v.FilesystemUUID)
	}
	return nil
}

func list(disks []host.Disk) string {
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = fmt.Sprintf("%s (%s, %d bytes)", d.Path, d.Node, d.Size)
	}
	return strings.Join(names, " and ")
}
