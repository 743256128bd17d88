package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// What a VM has unless its Spec says otherwise, and with a kubelet.
const (
	defaultMemoryMiB = 512
	kubeletMemoryMiB = 1536
)

// Fault makes a VM's reads or writes of a disk fail with EIO, as a dying
// device does.
type Fault struct {
	// Sector of 512 bytes that a request has to touch; −1 means any.
	Sector int64
	// Write chooses which requests fail: writes, otherwise reads.
	Write bool
	// Once lets only the first such request fail.
	Once bool
}

// NewDisk makes a blank volume of this many bytes: a sparse file in the lab's
// folder, which lasts until Close.
func (l *Lab) NewDisk(volumeID string, size int64) (Disk, error) {
	path := filepath.Join(l.dir, "volume-"+volumeID+".raw")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Disk{}, fmt.Errorf("making volume %s: %w", volumeID, err)
	}
	defer f.Close()
	return Disk{VolumeID: volumeID, Path: path}, f.Truncate(size)
}

// Snapshot copies what the disk holds at this moment to path: all writes that
// the machine's kernel has sent to it, and none that it still keeps in memory.
// Holes stay holes.
func (d Disk) Snapshot(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", "--", d.Path, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying volume %s: %w: %s", d.VolumeID, err, out)
	}
	return nil
}
