package powercut

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// The journal of a filesystem of this size has 64 MiB, and mkfs writes all of it.
	volumeBytes = 2 << 30
	// With this, mkfs takes two seconds and more.
	bytesPerSecond = 32 << 20
)

// volume is one disk of a machine, and what must stay as it is.
type volume struct {
	disk lab.Disk
	name string
	// size is that of the disk and what the topology says.
	size int64
	// mounts is how often it had been mounted when the present boot began.
	mounts uint16
	// format is of the mkfs that the controller knows of; "" before.
	format string
	// precious is the content of the file that must never be lost; nil before.
	precious []byte
	// readBack is how many acknowledged records the last check read back.
	readBack int
}

// newVolume makes a blank volume, the n-th of a machine.
func newVolume(l *lab.Lab, n int) (*volume, error) {
	disk, err := l.NewDisk(uuid.NewString(), volumeBytes)
	return &volume{disk: disk, name: fmt.Sprintf("volume-%d", n), size: volumeBytes}, err
}

// forVM gives the volume what its power cuts need.
func (v *volume) forVM() error {
	v.disk.WriteLog, v.disk.BytesPerSecond = v.disk.Path+".log", bytesPerSecond
	return os.WriteFile(v.disk.WriteLog, nil, 0o600)
}

func (v *volume) mountPath() string { return "/srv/" + v.name }
func (v *volume) exported() string  { return v.mountPath() + "/nfs" }
func (v *volume) journal() string {
	return "/var/lib/nodehitch/agent/journal/" + v.disk.VolumeID + ".json"
}
func (v *volume) uuid() string { return api.FilesystemUUID(v.disk.VolumeID) }

// before is a copy of what it held when the present boot began.
func (v *volume) before() string { return v.disk.Path + ".before" }

func (v *volume) described() site.Volume {
	return site.Volume{Name: v.name, Disk: v.disk, MountTo: v.mountPath(), SizeBytes: v.size}
}

// plugged notes what it holds when it comes to a running machine.
func (v *volume) plugged(ctx context.Context) error {
	super, err := v.superblock()
	v.mounts = super.mounts
	return errors.Join(err, v.disk.Snapshot(ctx, v.before()))
}

func (v *volume) discard() error {
	return errors.Join(os.Remove(v.disk.WriteLog), os.Remove(v.before()), os.Remove(v.disk.Path))
}

// whole checks the filesystem, with the machine on or off, after it was reported to the
// controller.
func (v *volume) whole(ctx context.Context) error {
	super, err := v.superblock()
	switch {
	case err != nil:
		return err
	case super.uuid != v.uuid():
		return fmt.Errorf("%s: the superblock has the UUID %q, expected %s", v.name, super.uuid, v.uuid())
	case v.format != "" && super.format != v.format:
		return fmt.Errorf("%s: formatted a second time", v.name)
	}
	v.format = super.format
	if super.mounts > 0 {
		return nil // its journal has yet to be replayed
	}
	return command(ctx, "e2fsck", "-n", "-f", v.disk.Path)
}

// superblock is what is read of an ext4 superblock.
type superblock struct {
	// uuid is "" if there is no superblock.
	uuid string
	// format is of one run of mkfs alone: the seed that it drew, and when it ran.
	format string
	// mounts is how often it was mounted.
	mounts uint16
	// size is that of the filesystem, in bytes.
	size int64
}

func (v *volume) superblock() (superblock, error) {
	f, err := os.Open(v.disk.Path)
	if err != nil {
		return superblock{}, err
	}
	defer f.Close()
	b := make([]byte, 1024)
	if _, err := f.ReadAt(b, 1024); err != nil && !errors.Is(err, io.EOF) {
		return superblock{}, err
	}
	if !bytes.Equal(b[0x38:0x3a], []byte{0x53, 0xef}) {
		return superblock{}, nil
	}
	id, err := uuid.FromBytes(b[0x68:0x78])
	return superblock{
		uuid:   id.String(),
		format: hex.EncodeToString(b[0xec:0xfc]) + hex.EncodeToString(b[0x108:0x10c]),
		mounts: binary.LittleEndian.Uint16(b[0x34:]),
		size:   int64(binary.LittleEndian.Uint32(b[0x04:])) << 12, // blocks of 4 KiB, fewer than 2^32
	}, err
}
