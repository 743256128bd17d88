package storage

import (
	"context"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// away plans for a volume whose disk is missing or ambiguous. A mount whose disk is
// gone is removed; an empty mount point is guarded, so that nothing is written under it.
func (p *volumePlan) away(present *host.Mount) error {
	if present == nil {
		return p.guard()
	}
	stale, err := p.stale(present)
	if stale {
		p.unmountStale(present)
	}
	return err
}

// stale reports whether a mount is ours and its disk is gone.
func (p *volumePlan) stale(m *host.Mount) (bool, error) {
	if m.FSType != "ext4" || p.view.owned.at(m.Point) == nil {
		return false, nil
	}
	all, err := p.Host.Disks.All()
	if err != nil {
		return false, converge.Wait(api.ReasonUnreadable, "volume %s: %v", p.v.VolumeID, err)
	}
	return !slices.ContainsFunc(all, func(d host.Disk) bool { return d.Number == m.Device }), nil
}

func (p *volumePlan) unmountStale(m *host.Mount) {
	gone := *m
	p.do(fmt.Sprintf("remove the mount at %s, whose disk (%s) is gone", m.Point, m.Device), func(ctx context.Context) error {
		return p.takeAway(ctx, &gone, true)
	})
}

func (p *volumePlan) busy(m *host.Mount) error {
	return converge.Fail(api.ReasonMountPointBusy,
		"volume %s: a %s from %s is mounted at %s; expected the volume or nothing: unmount it, or choose another mount_to",
		p.v.VolumeID, m.FSType, m.Source, m.Point)
}

// guard inspects a mount point on which nothing is mounted, and plans its guard.
func (p *volumePlan) guard() error {
	path := p.v.MountPath
	found, err := p.Host.Directories.Inspect(path)
	if err != nil {
		return err
	}
	busy := func(what string) error {
		return converge.Fail(api.ReasonMountPointBusy, "volume %s: the mount point %s %s", p.v.VolumeID, path, what)
	}
	switch {
	case found.Exists && found.NotDirectory != "":
		return busy("is " + found.NotDirectory + "; expected an empty directory: move it away")
	case found.Real != path:
		return busy("leads through a symbolic link: give " + found.Real + " as mount_to, or remove the link")
	case found.Entry != "":
		return busy(fmt.Sprintf("is not empty, it holds %q; expected an empty directory: move that away", found.Entry))
	case found.Guarded && p.view.owned.at(path) != nil:
		return nil
	}
	p.guarding = true
	p.do("guard the empty mount point "+path, func(context.Context) error {
		entry := p.entry()
		entry.Made, entry.Mode = !found.Exists, uint32(found.Mode)
		if old := p.view.owned.at(path); old != nil {
			entry.Made, entry.Mode = old.Made, old.Mode
		}
		if err := p.own(func(o *owned) { o.put(entry) }); err != nil {
			return err
		}
		return p.Host.Directories.Guard(path)
	})
	return nil
}

// mount checks the disk again, mounts it through systemd, and verifies the mount.
func (p *volumePlan) mount(ctx context.Context) error {
	disk, err := p.find(p.v)
	if err != nil {
		return err
	}
	sb, err := p.filesystemOn(disk)
	if err == nil {
		err = expect(p.v, disk, sb)
	}
	if err != nil {
		return converge.Wait(api.ReasonMountFailed, "%v; not mounted", err)
	}
	name := mountUnit(p.v.MountPath)
	if err := p.journal.mountAtBoot(p.v.VolumeID, true); err != nil {
		return err
	}
	if sb.Dirty {
		err = p.replay(ctx, name)
	}
	if err == nil {
		err = p.Host.Units.Start(ctx, name)
	}
	if err != nil {
		return converge.Wait(api.ReasonMountFailed, "volume %s: mounting %s at %s: %v; if the filesystem is damaged, repair it on the server with `e2fsck %s`",
			p.v.VolumeID, disk.Path, p.v.MountPath, err, disk.Path)
	}
	if err := p.verify(disk); err != nil {
		// It is unknown what is mounted there, so it must not stay.
		if stop := p.Host.Units.Stop(ctx, name); stop != nil {
			p.Log.Error("a wrong mount could not be unmounted", "path", p.v.MountPath, "error", stop)
		}
		return converge.Wait(api.ReasonMountFailed, "volume %s: %v", p.v.VolumeID, err)
	}
	p.Log.Info("mounted", "volume", p.v.VolumeID, "device", disk.Path, "path", p.v.MountPath)
	// The kernel may have cached that nothing is exported at this path.
	if err := p.Host.NFS.Flush(ctx); err != nil {
		p.Log.Warn("the NFS server's export cache could not be flushed", "error", err)
	}
	return nil
}

// replay mounts a filesystem whose journal has to be replayed, and unmounts it. Linux
// counts the block groups before it replays the journal, and does not count again if that
// changes the size. Such a mount cannot use the new room, and growing it further runs into
// a BUG() of ext4 (seen with Linux 6.1). The next mount counts anew. Nothing may be
// exported meanwhile, so that it can be unmounted.
func (p *volumePlan) replay(ctx context.Context, unit string) error {
	if err := p.unexport(ctx, p.v.MountPath); err != nil {
		return fmt.Errorf("removing its exports: %w", err)
	}
	if err := p.Host.Units.Start(ctx, unit); err != nil {
		return err
	}
	return p.Host.Units.Stop(ctx, unit)
}

func (p *volumePlan) verify(disk host.Disk) error {
	mounts, err := p.Host.Mounts.List()
	if err != nil {
		return err
	}
	m := (&view{mounts: mounts}).at(p.v.MountPath)
	switch {
	case m == nil:
		return fmt.Errorf("systemd says that %s is mounted, but the kernel does not list it", p.v.MountPath)
	case m.Device != disk.Number || m.FSType != "ext4" || m.Root != "/":
		return fmt.Errorf("a %s of the device %s is mounted at %s, expected the ext4 of %s (%s)", m.FSType, m.Device, p.v.MountPath, disk.Path, disk.Number)
	}
	return p.confirm(p.v, disk)
}
