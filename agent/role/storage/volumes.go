package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
)

// volumes is the step that owns VolumesMounted.
type volumes struct{ *steps }

func (s *volumes) Condition() string { return api.ConditionVolumesMounted }

func (s *volumes) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Storage == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	wanted := desired.Storage.Volumes
	mounts, err := s.Host.Mounts.List()
	if err != nil {
		return converge.Plan{}, err
	}
	have, err := s.owned()
	if err != nil {
		return converge.Plan{}, err
	}
	seen := view{mounts: mounts, owned: have}
	var first, last []converge.Action
	units := &unitFiles{}
	for _, old := range have.Volumes {
		if !slices.ContainsFunc(wanted, old.is) {
			first = append(first, s.remove(old, wanted, mounts, units)...)
			seen.leaving = append(seen.leaving, old.MountPath)
		}
	}
	var problems []error
	var paths []string
	for i := range wanted {
		p := volumePlan{steps: s.steps, v: &wanted[i], view: seen, units: units, proxy: software.ProxyOf(desired)}
		if err := p.plan(ctx); err != nil {
			problems = append(problems, err)
		}
		first, last = append(first, p.actions...), append(last, p.last...)
		paths = append(paths, wanted[i].MountPath+p.grew)
	}
	if units.planned || units.changed {
		first = append(first, units.reload(s.Host.Units))
	}
	plan := converge.Plan{Actions: append(first, last...), Reason: api.ReasonMounted, Message: "mounted: " + strings.Join(paths, ", ")}
	if len(wanted) == 0 {
		plan.Reason, plan.Message = api.ReasonRemoved, "the configuration has no volumes, and none of the agent's is mounted"
	}
	return plan, errors.Join(problems...)
}

// is reports whether the owned volume is this one at this place.
func (o ownedVolume) is(v api.StorageVolume) bool {
	return strings.EqualFold(o.VolumeID, v.VolumeID) && o.MountPath == v.MountPath
}

// view is the state of the machine that the plan uses.
type view struct {
	mounts []host.Mount
	owned  owned
	// leaving are mount points that this plan unmounts first.
	leaving []string
}

// at is the mount at a path, nil if nothing is mounted there.
func (w *view) at(path string) *host.Mount {
	for i := range slices.Backward(w.mounts) {
		if w.mounts[i].Point == path {
			return &w.mounts[i]
		}
	}
	return nil
}

// elsewhere is a mount of the disk's whole filesystem at another place, except one that
// this plan unmounts.
func (w *view) elsewhere(disk host.Disk, path string) *host.Mount {
	for i, m := range w.mounts {
		if m.Device == disk.Number && m.Point != path && m.Root == "/" && !slices.Contains(w.leaving, m.Point) {
			return &w.mounts[i]
		}
	}
	return nil
}

// write returns the actions that write unit files whose content differs.
func (s *steps) write(group string, units *unitFiles, files ...file) ([]converge.Action, error) {
	var actions []converge.Action
	for _, f := range files {
		same, err := s.Host.Files.Same(f.path, []byte(f.content), 0o644)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.path, err)
		}
		if !same {
			actions = append(actions, units.action("write "+f.path, group, func(context.Context) error {
				return s.Host.Files.Write(f.path, []byte(f.content), 0o644)
			}))
		}
	}
	return actions, nil
}

// unitFiles tracks whether systemd has to reload its unit files. A reload can take
// seconds, so it happens once in a pass, and only after a change.
type unitFiles struct{ planned, changed bool }

// action is an action that changes unit files, or which of them are enabled.
func (u *unitFiles) action(summary, group string, do func(context.Context) error) converge.Action {
	u.planned = true
	return converge.Action{Summary: summary, Group: group, Do: func(ctx context.Context) error {
		u.changed = true
		return do(ctx)
	}}
}

func (u *unitFiles) reload(systemd host.Units) converge.Action {
	return converge.Action{Summary: "reload systemd if unit files were changed", Group: "systemd", Do: func(ctx context.Context) error {
		if !u.changed {
			return nil
		}
		return systemd.Reload(ctx)
	}}
}
