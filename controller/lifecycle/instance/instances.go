package instance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// GetInstance is one instance, its secrets redacted.
func (s *Service) GetInstance(_ context.Context, id string) (api.Instance, error) {
	var out api.Instance
	err := s.Runner.View(id, func(t *tx.Tx) (err error) {
		out, err = s.show(t)
		return err
	})
	return out, err
}

// ListInstances is all instances, ordered by id.
func (s *Service) ListInstances(context.Context) ([]api.Instance, error) {
	list := []api.Instance{}
	err := s.Runner.ViewAll(func(t *tx.Tx) error {
		shown, err := s.show(t)
		list = append(list, shown)
		return err
	})
	return list, err
}

// show is the instance as people see it.
func (s *Service) show(t *tx.Tx) (api.Instance, error) {
	shown, d, err := s.stored(t)
	if err != nil {
		return api.Instance{}, err
	}
	s.Observer.Show(d, &shown)
	return shown, nil
}

// stored is what the store has of it, and its desired state: what was observed of its stack
// is in memory only.
func (s *Service) stored(t *tx.Tx) (api.Instance, store.Desired, error) {
	d, err := desired.InForce(t)
	if err != nil {
		return api.Instance{}, store.Desired{}, err
	}
	shown := api.Instance{
		ID: t.Instance.ID, Name: t.Instance.Name, Labels: t.Instance.Labels, Kind: t.Instance.Kind, State: t.Instance.State,
		AdditionalParams: params.Redact(d.Raw),
		StackID:          d.StackID, Topology: d.Topology, DesiredVersion: t.Instance.DesiredVersion,
		MissingFiles: []string{}, Files: []api.PackageFile{}, Nodes: []string{}, Warnings: []api.Fault{},
		CreatedAt: t.Instance.CreatedAt, UpdatedAt: t.Instance.UpdatedAt,
		Unconfirmed: t.Unconfirmed(), Restored: t.Restored(),
	}
	if err := s.showPlan(t, d, &shown); err != nil {
		return api.Instance{}, store.Desired{}, err
	}
	return shown, d.Desired, showFiles(t, d, &shown)
}

func (s *Service) showPlan(t *tx.Tx, d *desired.State, shown *api.Instance) error {
	if d.Params == nil {
		shown.Warnings = append(append(shown.Warnings, reconcile.NotPlanned), d.Report.Faults...)
		return nil
	}
	out, _, err := s.Reconciler.Plan(t, d)
	if err != nil {
		return err
	}
	if len(out.Faults) > 0 {
		shown.Warnings = append(append(shown.Warnings, reconcile.NotPlanned), out.Faults...)
	}
	foreign, err := reconcile.ForeignServers(t, d.Topology)
	if err != nil {
		return err
	}
	shown.Warnings = append(shown.Warnings, slices.Concat(d.Report.Warnings, out.Warnings, foreign)...)
	for _, n := range out.Nodes {
		shown.Nodes = append(shown.Nodes, n.ID)
	}
	return nil
}

func showFiles(t *tx.Tx, d *desired.State, shown *api.Instance) error {
	files, err := packagefile.Of(t)
	if err != nil {
		return err
	}
	shown.MissingFiles = packagefile.Missing(d.Params, files)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		if f.Lost {
			continue // it is missing
		}
		shown.Files = append(shown.Files, api.PackageFile{Path: f.Path, Sha256: f.SHA256, SizeBytes: f.SizeBytes, Faults: f.Faults})
		shown.Warnings = append(shown.Warnings, f.Warnings...)
	}
	return nil
}

// DeleteInstance forgets an instance, its files and its secrets. It is refused
// while an operation is in progress or a node has a live identity, and if a condition does
// not hold. The records of its volumes stay, because a volume is formatted once.
func (s *Service) DeleteInstance(ctx context.Context, id string, conditions ...Condition) error {
	var nodes []string
	err := s.Runner.Update(ctx, id, func(t *tx.Tx) error {
		if t.Instance.ProcessingSequence != 0 {
			return reconcile.InProgress(t)
		}
		if err := noLiveNodes(t); err != nil {
			return err
		}
		if _, err := s.checkConditions(t, true, conditions); err != nil {
			return err
		}
		nodes = t.Instance.NodeIDs
		return s.delete(t)
	})
	for _, n := range nodes {
		s.Presence.Forget(n)
	}
	if err == nil {
		s.Observer.Forget(id)
		s.Accepted(id)
	}
	return err
}

func noLiveNodes(t *tx.Tx) error {
	nodes, err := t.InstanceNodes()
	if err != nil {
		return err
	}
	var live []string
	for _, n := range nodes {
		if n.Identity.Live() {
			live = append(live, fmt.Sprintf("%s (%s)", n.Name, n.ID))
		}
	}
	if len(live) > 0 {
		return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
			"%s still has enrolled nodes: %s; TERMINATE it, or revoke them, first", t.Instance.Title(), strings.Join(live, ", ")))
	}
	return nil
}

func (s *Service) delete(t *tx.Tx) error {
	for _, id := range t.Instance.VolumeIDs {
		if err := s.Reconciler.ForgetVolume(t, id); err != nil {
			return err
		}
	}
	nodes, err := t.InstanceNodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := t.Nodes().Delete(n.ID); err != nil {
			return err
		}
		t.Changed(n.ID, notify.Nodes)
	}
	prefix := store.InstancePrefix(t.Instance.ID)
	versions, err := t.Desired().Prefix(prefix)
	for _, d := range versions {
		err = cmp.Or(err, t.Desired().Delete(store.DesiredKey(t.Instance.ID, d.Version)))
	}
	files, listErr := t.Files().Prefix(prefix)
	err = cmp.Or(err, listErr)
	for _, f := range files {
		err = cmp.Or(err, t.Files().Delete(store.FileKey(t.Instance.ID, f.Path)))
	}
	operations, listErr := t.Operations().Prefix(prefix)
	err = cmp.Or(err, listErr)
	for _, o := range operations {
		err = cmp.Or(err, t.Operations().Delete(store.OperationKey(t.Instance.ID, o.Sequence)))
	}
	t.Changed(notify.Operations)
	return cmp.Or(err, t.Delete())
}
