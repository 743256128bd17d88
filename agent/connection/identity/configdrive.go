package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const metadataOnDrive = "openstack/latest/meta_data.json"

// driveLabels are the links that udev makes for a config drive, ISO 9660 and VFAT.
var driveLabels = []string{"config-2", "CONFIG-2"}

// driveFilesystems are the filesystems of Nova's config drives.
var driveFilesystems = []string{"iso9660", "vfat"}

// configDrive reads the id from Nova's config drive, if the server has one.
func (m *Machine) configDrive() (string, error) {
	for _, label := range driveLabels {
		device, err := filepath.EvalSymlinks(m.path("dev/disk/by-label/" + label))
		if err == nil {
			return readDrive(device, driveFilesystems)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("no disk is labelled %s", driveLabels[0])
}

func readDrive(device string, filesystems []string) (string, error) {
	var failures error
	for _, filesystem := range filesystems {
		root, err := mountDetached(device, filesystem)
		if err != nil {
			failures = errors.Join(failures, err)
			continue
		}
		defer root.Close()
		fd, err := unix.Openat(int(root.Fd()), metadataOnDrive, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("%s of %s: %w", metadataOnDrive, device, err)
		}
		f := os.NewFile(uintptr(fd), metadataOnDrive)
		defer f.Close()
		return serverID(f, metadataOnDrive+" of "+device)
	}
	return "", failures
}

// mountDetached mounts the device read-only without a mount point: the mount is visible
// only through the returned file, and ends when that is closed or the process ends
// (fsopen(2), Linux 5.2).
func mountDetached(device, filesystem string) (*os.File, error) {
	fail := func(err error) error { return fmt.Errorf("mounting %s as %s: %w", device, filesystem, err) }
	config, err := unix.Fsopen(filesystem, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fail(err)
	}
	defer unix.Close(config) //nolint:errcheck // nothing is written
	if err = unix.FsconfigSetString(config, "source", device); err == nil {
		err = unix.FsconfigSetFlag(config, "ro")
	}
	if err == nil {
		err = unix.FsconfigCreate(config)
	}
	if err != nil {
		return nil, fail(err)
	}
	const attributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	mount, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return nil, fail(err)
	}
	return os.NewFile(uintptr(mount), device), nil
}
