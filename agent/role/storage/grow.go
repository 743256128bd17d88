package storage

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
)

// rest is the most that mkfs and resize2fs leave unused at the end of a disk: a last block
// group without room for its own tables, which grow with the disk.
func rest(size int64) int64 { return smallest + size>>20 }

// mayGrow decides whether a filesystem may grow to the size of its disk. Two have to say
// that the volume was extended: the kernel, and the document if it has a size. A disk that
// is larger than its volume may be another disk, or its extension is not finished and may
// be taken back; and what has grown cannot shrink again.
func mayGrow(sb superblock, r *record, v *api.StorageVolume, disk host.Disk) (bool, error) {
	filesystem := int64(sb.Size)
	switch err := expect(v, disk, sb); {
	case err != nil:
		return false, err
	case filesystem > disk.Size:
		return false, shrunk(v, disk, filesystem)
	case disk.Size < v.SizeBytes:
		return false, smaller(v, disk)
	case v.SizeBytes != 0 && disk.Size > v.SizeBytes:
		return false, converge.Wait(api.ReasonSizeMismatch,
			"volume %s: %s has %d bytes, expected %d; it is mounted as it is; if it was extended, its filesystem grows as soon as the topology has its new size: send it",
			v.VolumeID, disk.Path, disk.Size, v.SizeBytes)
	case disk.Size-filesystem <= rest(disk.Size):
		return false, nil
	case r.unfinished():
		return false, converge.Fail(api.ReasonFormatInterrupted,
			"volume %s: %s was extended to %d bytes, but %s, so its filesystem does not grow; its journal is kept: "+
				"unmount it, check it with `e2fsck -f %s` and grow it with `resize2fs %s`",
			v.VolumeID, disk.Path, disk.Size, unfinishedFormat, disk.Path, disk.Path)
	}
	return true, nil
}

// growable reads what is on the disk at this moment, and decides.
func (p *volumePlan) growable() (sb superblock, grow bool, err error) {
	if sb, err = p.filesystemOn(p.disk); err != nil {
		return sb, false, converge.Wait(api.ReasonUnreadable, "volume %s: reading the superblock of %s: %v", p.v.VolumeID, p.disk.Path, err)
	}
	r, err := p.journal.read(p.v.VolumeID)
	if err != nil {
		return sb, false, err
	}
	grow, err = mayGrow(sb, r, p.v, p.disk)
	return sb, grow, err
}

// grow plans to grow the filesystem of a volume that was extended, after it is mounted, or to
// continue a growth that was interrupted.
func (p *volumePlan) grow(ctx context.Context) error {
	sb, grow, err := p.growable()
	if err != nil {
		return err
	}
	g, err := p.journal.growth(p.v.VolumeID)
	switch {
	case err != nil:
		return err
	case !grow && g.Phase != growing:
		p.grew = g.of(sb)
		return nil
	}
	tools, err := software.Install(ctx, p.Host, p.proxy, p.v.MountPath, host.Ext4Tools)
	if err != nil {
		return err
	}
	p.last = append(append(p.last, tools...), converge.Action{
		Summary: fmt.Sprintf("grow the filesystem at %s from %d to %d bytes", p.v.MountPath, sb.Size, p.disk.Size),
		Group:   p.v.MountPath, Do: p.extend,
	})
	return nil
}

// extend grows the filesystem while it is mounted. The order makes a crash at any point
// harmless:
//
//	journal growing → not at boot → resize2fs → at boot → journal grown
//
// A growth that was cut off leaves an intact filesystem of a size in between. The next
// pass goes on from there, and the journal knows where it began. Meanwhile the filesystem
// is not mounted at boot, because it needs more than one mount then: see replay.
func (p *volumePlan) extend(ctx context.Context) error {
	sb, grow, err := p.growable()
	if err != nil {
		return err
	}
	g, err := p.journal.growth(p.v.VolumeID)
	if err != nil || !grow && g.Phase != growing {
		return err
	}
	if g.Phase != growing || g.FilesystemUUID != sb.UUID {
		g = growth{VolumeID: p.v.VolumeID, FilesystemUUID: sb.UUID, FromBytes: int64(sb.Size)}
	}
	if grow {
		g.Phase, g.ToBytes = growing, p.disk.Size
		if err := p.journal.writeGrowth(g); err != nil {
			return err
		}
		if err := p.journal.mountAtBoot(p.v.VolumeID, false); err != nil {
			return err
		}
		if sb, err = p.resize(ctx); err != nil {
			return err
		}
	}
	if err := p.journal.mountAtBoot(p.v.VolumeID, true); err != nil {
		return err
	}
	g.Phase, g.ToBytes = grown, int64(sb.Size)
	p.Log.Info("the filesystem has grown", "volume", p.v.VolumeID, "device", p.disk.Path, "from", g.FromBytes, "to", g.ToBytes)
	return p.journal.writeGrowth(g)
}

// resize returns the superblock of the filesystem that has grown.
func (p *volumePlan) resize(ctx context.Context) (superblock, error) {
	failed := func(why any) (superblock, error) {
		return superblock{}, converge.Wait(api.ReasonGrowFailed, "volume %s: growing the filesystem of %s to %d bytes: %v; it stays mounted, and the agent tries again",
			p.v.VolumeID, p.disk.Path, p.disk.Size, why)
	}
	d, err := p.Host.Disks.Open(p.disk, false)
	if err != nil {
		return failed(err)
	}
	defer d.Close()
	if err := p.Host.Disks.GrowExt4(ctx, d, p.v.MountPath); err != nil {
		return failed(err)
	}
	sb, left, err := p.growable()
	switch {
	case err != nil:
		return sb, err
	case left:
		return failed(fmt.Sprintf("resize2fs has ended, and the filesystem has %d bytes", sb.Size))
	}
	return sb, nil
}
