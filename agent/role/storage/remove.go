package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// remove plans to unmount a volume that is no longer desired at its place. Its data is
// not changed. What the desired volumes need too is kept.
func (s *steps) remove(old ownedVolume, wanted []api.StorageVolume, mounts []host.Mount, units *unitFiles) []converge.Action {
	samePlace := slices.ContainsFunc(wanted, func(v api.StorageVolume) bool { return v.MountPath == old.MountPath })
	sameDisk := slices.ContainsFunc(wanted, func(v api.StorageVolume) bool { return v.VolumeID == old.VolumeID })
	var actions []converge.Action
	do := func(summary string, f func(context.Context) error) {
		actions = append(actions, converge.Action{Summary: summary, Group: old.MountPath, Do: f})
	}
	if m := (&view{mounts: mounts}).at(old.MountPath); m != nil && m.FSType == "ext4" {
		do("unmount "+old.MountPath, func(ctx context.Context) error { return s.unmount(ctx, old) })
	}
	if !samePlace {
		name := mountUnit(old.MountPath)
		actions = append(actions, units.action("remove "+name, old.MountPath, func(ctx context.Context) error {
			return s.removeUnit(ctx, name, mountUnitPath(old.MountPath))
		}))
	}
	if !sameDisk && old.Device != "" { // "" if the disk was never attached
		actions = append(actions, units.action("remove the timeout of "+old.Device, old.MountPath, func(context.Context) error {
			return s.Host.Files.Remove(deviceDropInPath(old.Device))
		}))
	}
	if !samePlace {
		do("leave the mount point "+old.MountPath, func(context.Context) error {
			mode := fs.FileMode(old.Mode).Perm()
			if mode == 0 {
				mode = 0o755
			}
			return s.Host.Directories.Unguard(old.MountPath, mode, old.Made)
		})
	}
	do("forget "+old.MountPath, func(context.Context) error {
		return s.own(func(o *owned) {
			if now := o.at(old.MountPath); now != nil && now.VolumeID == old.VolumeID {
				o.drop(old.MountPath)
			}
		})
	})
	return actions
}

// removeUnit removes a unit and its file. After a crash the file may not exist; systemd
// refuses to disable a unit without one.
func (s *steps) removeUnit(ctx context.Context, name, path string) error {
	if _, err := s.Host.Files.Read(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := s.Host.Units.Disable(ctx, name); err != nil {
		return err
	}
	return s.Host.Files.Remove(path)
}

// unmount unmounts our volume. It leaves another filesystem that was mounted there
// since.
func (s *steps) unmount(ctx context.Context, old ownedVolume) error {
	mounts, err := s.Host.Mounts.List()
	if err != nil {
		return err
	}
	m := (&view{mounts: mounts}).at(old.MountPath)
	if m == nil {
		return nil
	}
	disk, err := s.diskOf(m)
	if err != nil {
		return err
	}
	if disk != nil {
		sb, err := s.filesystemOn(*disk)
		if err != nil {
			return converge.Wait(api.ReasonUnreadable, "volume %s: the agent cannot tell whether it is still mounted at %s: %v", old.VolumeID, old.MountPath, err)
		}
		if sb.UUID != old.FilesystemUUID {
			s.Log.Warn("not unmounted: another filesystem is mounted here", "path", old.MountPath, "found", sb.UUID, "expected", old.FilesystemUUID)
			return nil
		}
	}
	return s.takeAway(ctx, m, disk == nil)
}

// takeAway unmounts one of our volumes. If its disk is gone, nothing can be written
// back, so it detaches a mount that cannot be unmounted.
func (s *steps) takeAway(ctx context.Context, m *host.Mount, gone bool) error {
	if err := s.unexport(ctx, m.Point); err != nil {
		if !gone {
			return fmt.Errorf("removing the exports of %s: %w", m.Point, err)
		}
		s.Log.Warn("the exports could not be removed", "path", m.Point, "error", err)
	}
	stopped := s.Host.Units.Stop(ctx, mountUnit(m.Point))
	mounts, err := s.Host.Mounts.List()
	if err != nil {
		return err
	}
	now := (&view{mounts: mounts}).at(m.Point)
	switch {
	case now == nil || now.Device != m.Device:
		return nil
	case gone:
		return s.Host.Mounts.Detach(m.Point)
	case stopped == nil:
		return converge.Wait(api.ReasonMountFailed, "%s is still mounted although systemd says that it is not", m.Point)
	}
	return converge.Wait(api.ReasonMountFailed, "unmounting %s: %v; `fuser -vm %s` lists the processes that use it", m.Point, stopped, m.Point)
}

// diskOf is the disk of a mount, nil if it is gone.
func (s *steps) diskOf(m *host.Mount) (*host.Disk, error) {
	all, err := s.Host.Disks.All()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(d host.Disk) bool { return d.Number == m.Device })
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}
