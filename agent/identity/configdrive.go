package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

const metadataOnDrive = "openstack/latest/meta_data.json"

// driveLabels are the links that udev makes for a config drive, ISO 9660 and VFAT.
var driveLabels = []string{"config-2", "CONFIG-2"}

// driveFilesystems are what Nova writes a config drive in. (ext4 is for tests on
// kernels that have neither.)
var driveFilesystems = []string{"iso9660", "vfat"}

// configDrive reads the id from the drive that Nova attaches where it is told to.
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

// readDrive mounts the device, read-only, where nobody else sees it: in a mount
// namespace of one thread, which ends with the thread. Nothing is left to be
// unmounted, however this ends.
func readDrive(device string, filesystems []string) (string, error) {
	type answer struct {
		id  string
		err error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		id, err := mountAndRead(device, filesystems)
		done <- answer{id, err}
	}()
	a := <-done
	return a.id, a.err
}

func mountAndRead(device string, filesystems []string) (string, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return "", fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("making mounts private: %w", err)
	}
	dir := os.TempDir()
	var failures error
	for _, filesystem := range filesystems {
		err := unix.Mount(device, dir, filesystem, unix.MS_RDONLY|unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, "")
		if err != nil {
			failures = errors.Join(failures, fmt.Errorf("mounting %s as %s: %w", device, filesystem, err))
			continue
		}
		f, err := os.Open(filepath.Join(dir, metadataOnDrive))
		if err != nil {
			return "", err
		}
		defer f.Close()
		return serverID(f, metadataOnDrive+" of "+device)
	}
	return "", failures
}
