package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
)

// volumePlan plans one volume.
type volumePlan struct {
	*steps
	v     *api.StorageVolume
	view  view
	units *unitFiles
	proxy host.Proxy

	disk     host.Disk
	guarding bool
	// grew says how the filesystem grew last, "" if it never did.
	grew string
	// actions up to the unit files, and those after systemd has reloaded them.
	actions, last []converge.Action
}

// do adds an action. Actions at one mount point depend on one another.
func (p *volumePlan) do(summary string, f func(context.Context) error) {
	p.actions = append(p.actions, converge.Action{Summary: summary, Group: p.v.MountPath, Do: f})
}

func (p *volumePlan) plan(ctx context.Context) error {
	present := p.view.at(p.v.MountPath)
	disk, err := p.find(p.v)
	if err != nil {
		return errors.Join(err, p.away(present))
	}
	p.disk = disk
	if present != nil && present.Device == disk.Number {
		return p.mounted(ctx, present)
	}
	if other := p.view.elsewhere(disk, p.v.MountPath); other != nil && present == nil {
		return converge.Fail(api.ReasonMountPointBusy, "volume %s: %s is mounted at %s already; unmount it there (`umount %s`)",
			p.v.VolumeID, disk.Path, other.Point, other.Point)
	}
	if present != nil && !slices.Contains(p.view.leaving, p.v.MountPath) {
		stale, err := p.stale(present)
		if err != nil {
			return err
		}
		if !stale {
			return p.busy(present)
		}
		p.unmountStale(present)
	} else if present == nil {
		if err := p.guard(); err != nil {
			return err
		}
	}
	return p.unmounted(ctx)
}

// mounted plans for a volume whose disk is mounted at its place.
func (p *volumePlan) mounted(ctx context.Context, m *host.Mount) error {
	if m.FSType != "ext4" || m.Root != "/" {
		return p.busy(m)
	}
	if err := p.confirm(p.v, p.disk); err != nil {
		return converge.Fail(api.ReasonMountPointBusy, "%v; it is mounted at %s and is not changed: unmount it, and the agent continues", err, p.v.MountPath)
	}
	if err := p.files(ctx); err != nil {
		return err
	}
	p.remember()
	if err := p.report(); err != nil {
		return err
	}
	if slices.Contains(m.Options, "ro") || slices.Contains(m.SuperOptions, "ro") {
		return converge.Wait(api.ReasonMountFailed,
			"volume %s: the filesystem at %s is mounted read-only, which the kernel does after an error: read its log (`dmesg`), unmount it and check it with `e2fsck %s`",
			p.v.VolumeID, p.v.MountPath, p.disk.Path)
	}
	return p.grow(ctx)
}

// unmounted plans for a volume whose disk is attached and not mounted.
func (p *volumePlan) unmounted(ctx context.Context) error {
	tools, err := software.Install(ctx, p.Host, p.proxy, p.v.MountPath, host.Ext4Tools)
	if err != nil {
		return err
	}
	f := &formatter{steps: p.steps, v: p.v, disk: p.disk}
	c := inspect(ctx, p.Host.Disks, p.disk, p.v.FilesystemUUID, unknown)
	f.found = c
	r, err := p.journal.read(p.v.VolumeID)
	if err != nil {
		return err
	}
	what, why := decide(c, r, p.v, p.disk, p.NodeID)
	switch what {
	case keep:
	case format:
		p.actions = append(p.actions, tools...)
		p.do(fmt.Sprintf("format %s as ext4 %s", p.disk.Path, p.v.FilesystemUUID), f.run)
	case resume:
		p.actions = append(p.actions, tools...)
		p.do(fmt.Sprintf("finish formatting %s as ext4 %s", p.disk.Path, p.v.FilesystemUUID), f.run)
	case refuse:
		if !p.v.ReformatRequested {
			return f.refused(r, why)
		}
		p.actions = append(p.actions, tools...)
		p.do("overwrite "+p.disk.Path+" if the operator's permit is still valid", f.run)
	case wait:
		return f.unreadable(why)
	case mismatch:
		return f.mismatched(r)
	default:
		return fmt.Errorf("volume %s: a bug in the agent: no such decision", p.v.VolumeID)
	}
	p.remember()
	if err := p.files(ctx); err != nil {
		return err
	}
	p.last = append(p.last, converge.Action{
		Summary: fmt.Sprintf("mount %s at %s", p.disk.Path, p.v.MountPath), Group: p.v.MountPath, Do: p.mount,
	})
	if what != keep {
		p.reportIn(p.v.MountPath, f)
		return nil
	}
	return errors.Join(p.grow(ctx), p.report())
}

// files plans the unit and its drop-in, on disk and loaded by systemd. systemd loads a
// unit that it does not know when it is started, and the enabled state and the device's
// drop-in matter only at the next boot: neither needs a reload.
func (p *volumePlan) files(ctx context.Context) error {
	name := mountUnit(p.v.MountPath)
	state, err := p.Host.Units.Unit(ctx, name)
	if err != nil {
		return err
	}
	p.units.changed = p.units.changed || state.Stale
	units := p.units
	if state.Loaded == "not-found" {
		units = &unitFiles{} // not reloaded
	}
	growing, err := p.journal.growingPath(p.v.VolumeID)
	if err != nil {
		return err
	}
	actions, err := p.write(p.v.MountPath, units, mountFiles(p.v, p.disk.Path, growing)...)
	if err != nil {
		return err
	}
	if state.File != "enabled" {
		actions = append(actions, units.action("enable "+name, p.v.MountPath, func(ctx context.Context) error { return p.Host.Units.Enable(ctx, name) }))
	}
	p.actions = append(p.actions, actions...)
	return nil
}

// report plans the report of a finished format, also of one whose end is not in the
// journal. It has its own group, because the volume can be mounted even if the report
// fails.
func (p *volumePlan) report() error {
	r, err := p.journal.read(p.v.VolumeID)
	if err != nil || r == nil {
		return err
	}
	f := &formatter{steps: p.steps, v: p.v, disk: p.disk}
	unfinished := r.unfinished() && r.misfit(p.v, p.disk, p.NodeID) == ""
	if unfinished {
		p.do("close the journal of "+p.disk.Path, func(context.Context) error { return f.finishFormat(r) })
	}
	if unfinished || r.Phase == formatted {
		p.reportIn("report "+p.v.VolumeID, f)
	}
	return nil
}

func (p *volumePlan) reportIn(group string, f *formatter) {
	p.last = append(p.last, converge.Action{
		Summary: "report that " + p.disk.Path + " is formatted", Group: group, Do: f.report,
	})
}

// remember corrects the inventory if guard does not: it was lost, or the device has
// another link now.
func (p *volumePlan) remember() {
	entry := p.entry()
	if old := p.view.owned.at(p.v.MountPath); old != nil {
		entry.Made, entry.Mode = old.Made, old.Mode
		if *old == entry {
			return
		}
	} else if p.guarding {
		return
	}
	p.do("remember "+p.v.MountPath+" as ours", func(context.Context) error {
		return p.own(func(o *owned) {
			if old := o.at(entry.MountPath); old != nil {
				entry.Made, entry.Mode = old.Made, old.Mode
			}
			o.put(entry)
		})
	})
}

func (p *volumePlan) entry() ownedVolume {
	return ownedVolume{VolumeID: p.v.VolumeID, MountPath: p.v.MountPath, FilesystemUUID: p.v.FilesystemUUID, Device: p.disk.Path}
}
