package lcm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// GetInstance is one instance, its secrets redacted.
func (s *Service) GetInstance(_ context.Context, id string) (api.Instance, error) {
	var out api.Instance
	err := s.view(id, func(u *unit) error {
		var err error
		out, err = u.show()
		return err
	})
	return out, err
}

// ListInstances is all instances, ordered by id.
func (s *Service) ListInstances(context.Context) ([]api.Instance, error) {
	list := []api.Instance{}
	err := s.Store.View(func(tx *store.Tx) error {
		all, err := tx.Instances().All()
		if err != nil {
			return err
		}
		for _, inst := range all {
			shown, err := s.newUnit(tx, inst).show()
			if err != nil {
				return err
			}
			list = append(list, shown)
		}
		return nil
	})
	return list, err
}

// show is the instance as people see it.
func (u *unit) show() (api.Instance, error) {
	d, err := u.desired()
	if err != nil {
		return api.Instance{}, err
	}
	shown := api.Instance{
		ID: u.inst.ID, Kind: u.inst.Kind, State: u.inst.State,
		AdditionalParams: params.Redact(d.raw),
		StackID:          d.StackID, Topology: d.Topology, DesiredVersion: u.inst.DesiredVersion,
		MissingFiles: []string{}, Files: []api.PackageFile{}, Nodes: []string{}, Warnings: []api.Fault{},
		CreatedAt: u.inst.CreatedAt, UpdatedAt: u.inst.UpdatedAt,
		Unconfirmed: u.unconfirmed(u.inst),
	}
	u.showStack(d, &shown)
	if err := u.showPlan(d, &shown); err != nil {
		return api.Instance{}, err
	}
	return shown, u.showFiles(d, &shown)
}

func (u *unit) showPlan(d *desired, shown *api.Instance) error {
	if d.params == nil {
		shown.Warnings = append(append(shown.Warnings, notPlanned), d.report.Faults...)
		return nil
	}
	out, err := u.plan(d)
	if err != nil {
		return err
	}
	if len(out.Faults) > 0 {
		shown.Warnings = append(append(shown.Warnings, notPlanned), out.Faults...)
	}
	foreign, err := u.foreignServers(d.Topology)
	if err != nil {
		return err
	}
	shown.Warnings = slices.Concat(shown.Warnings, d.report.Warnings, out.Warnings, foreign)
	for _, n := range out.Nodes {
		shown.Nodes = append(shown.Nodes, n.ID)
	}
	return nil
}

func (u *unit) showFiles(d *desired, shown *api.Instance) error {
	files, err := u.files()
	if err != nil {
		return err
	}
	shown.MissingFiles = missingFiles(d.params, files)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		shown.Files = append(shown.Files, api.PackageFile{Path: f.Path, Sha256: f.SHA256, SizeBytes: f.SizeBytes, Faults: f.Faults})
		shown.Warnings = append(shown.Warnings, f.Warnings...)
	}
	return nil
}

// DeleteInstance forgets an instance, its files and its secrets. It is refused
// while an operation is at work or a node has a live identity. The records of its
// volumes stay, for a volume is formatted once in its life.
func (s *Service) DeleteInstance(ctx context.Context, id string) error {
	var nodes []string
	err := s.update(ctx, id, func(u *unit) error {
		if u.inst.Processing != 0 {
			return u.inProgress()
		}
		if err := u.noLiveNodes(); err != nil {
			return err
		}
		nodes = u.inst.NodeIDs
		return u.delete()
	})
	for _, n := range nodes {
		s.presence.forget(n)
	}
	if err == nil {
		s.looks.forget(id)
		s.knocks.reset(id)
	}
	return err
}

func (u *unit) noLiveNodes() error {
	var live []string
	for _, id := range u.inst.NodeIDs {
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return err
		}
		if found && n.InstanceID == u.inst.ID && n.Identity.Live() {
			live = append(live, fmt.Sprintf("%s (%s)", n.Name, id))
		}
	}
	if len(live) > 0 {
		return conflict("VNF instance %s has nodes with a live identity: %s; post TERMINATE first, or revoke them by hand",
			u.inst.ID, strings.Join(live, ", "))
	}
	return nil
}

func (u *unit) delete() error {
	for _, id := range u.inst.VolumeIDs {
		if err := u.forgetVolume(id); err != nil {
			return err
		}
	}
	for _, id := range u.inst.NodeIDs {
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return err
		}
		if !found || n.InstanceID != u.inst.ID {
			continue
		}
		if err := u.tx.Nodes().Delete(id); err != nil {
			return err
		}
		u.changed(id, notify.Nodes)
	}
	prefix := store.InstancePrefix(u.inst.ID)
	desired, err := u.tx.Desired().Prefix(prefix)
	for _, d := range desired {
		err = first(err, u.tx.Desired().Delete(store.DesiredKey(u.inst.ID, d.Version)))
	}
	files, listErr := u.tx.Files().Prefix(prefix)
	err = first(err, listErr)
	for _, f := range files {
		err = first(err, u.tx.Files().Delete(store.FileKey(u.inst.ID, f.Path)))
	}
	operations, listErr := u.tx.Operations().Prefix(prefix)
	err = first(err, listErr)
	for _, o := range operations {
		err = first(err, u.tx.Operations().Delete(store.OperationKey(u.inst.ID, o.Sequence)))
	}
	u.changed(notify.Operations)
	u.deleted = true
	return first(err, u.tx.Instances().Delete(u.inst.ID))
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
