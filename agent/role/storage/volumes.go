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
	look := view{mounts: mounts, owned: have}
	var first, last []converge.Action
	units := &unitFiles{}
	for _, old := range have.Volumes {
		if !slices.ContainsFunc(wanted, old.is) {
			first = append(first, s.remove(old, wanted, mounts, units)...)
			look.leaving = append(look.leaving, old.MountPath)
		}
	}
	var problems []error
	var paths []string
	for i := range wanted {
		p := volumePlan{steps: s.steps, v: &wanted[i], view: look, units: units, proxy: software.ProxyOf(desired)}
		if err := p.plan(ctx); err != nil {
			problems = append(problems, err)
		}
		first, last = append(first, p.actions...), append(last, p.last...)
		paths = append(paths, wanted[i].MountPath)
	}
	if units.planned || units.changed {
		first = append(first, units.reload(s.Host.Units))
	}
	plan := converge.Plan{Actions: append(first, last...), Reason: api.ReasonMounted, Message: "mounted: " + strings.Join(paths, ", ")}
	if len(wanted) == 0 {
		plan.Reason, plan.Message = api.ReasonRemoved, "no volume is wanted here, and none of ours is mounted"
	}
	return plan, errors.Join(problems...)
}

// is says whether what is owned is this volume at this place.
func (o ownedVolume) is(v api.StorageVolume) bool {
	return strings.EqualFold(o.VolumeID, v.VolumeID) && o.MountPath == v.MountPath
}

// view is the machine as the plan sees it.
type view struct {
	mounts []host.Mount
	owned  owned
	// leaving are mount points whose mount this plan takes away first.
	leaving []string
}

// at is what is seen at a path, nil where nothing is mounted right there.
func (w *view) at(path string) *host.Mount {
	for i := range slices.Backward(w.mounts) {
		if w.mounts[i].Point == path {
			return &w.mounts[i]
		}
	}
	return nil
}

// elsewhere is a mount of the disk's whole filesystem at another place, except one
// that this plan takes away.
func (w *view) elsewhere(disk host.Disk, path string) *host.Mount {
	for i, m := range w.mounts {
		if m.Device == disk.Number && m.Point != path && m.Root == "/" && !slices.Contains(w.leaving, m.Point) {
			return &w.mounts[i]
		}
	}
	return nil
}

// write are the actions that make unit files what they should be.
func (s *steps) write(group string, units *unitFiles, files ...file) ([]converge.Action, error) {
	var actions []converge.Action
	for _, f := range files {
		same, err := s.Host.Files.Same(f.path, []byte(f.content), 0o644)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", f.path, err)
		}
		if !same {
			actions = append(actions, units.action("write "+f.path, group, func(context.Context) error {
				return s.Host.Files.Write(f.path, []byte(f.content), 0o644)
			}))
		}
	}
	return actions, nil
}

// unitFiles knows whether systemd has to read unit files again: that can take
// seconds, so it is done once in a pass, and only after a change that was made.
type unitFiles struct{ planned, changed bool }

// action is one that changes unit files, or which of them are enabled.
func (u *unitFiles) action(summary, group string, do func(context.Context) error) converge.Action {
	u.planned = true
	return converge.Action{Summary: summary, Group: group, Do: func(ctx context.Context) error {
		u.changed = true
		return do(ctx)
	}}
}

func (u *unitFiles) reload(systemd host.Units) converge.Action {
	return converge.Action{Summary: "have systemd read its unit files where they were changed", Group: "systemd", Do: func(ctx context.Context) error {
		if !u.changed {
			return nil
		}
		return systemd.Reload(ctx)
	}}
}
