package discovery

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// longestFencePause is the longest pause between two looks at an old storage server: Pods wait
// meanwhile.
const longestFencePause = time.Minute

// CheckFences asks the cloud of each instance whose storage server waits for an old one, when that
// is due, and lets the volumes go once the old one is gone. What waits is in the records, so that
// another replica goes on after a restart. Several are looked at together: Pods wait for each.
func (s *Service) CheckFences(ctx context.Context) error {
	var failed []error
	err := s.Runner.ViewAll(func(t *tx.Tx) error {
		waits, err := fenced(t)
		if waits {
			s.fences.note(t.Instance.ID)
		}
		if err != nil { // the others must not wait for it
			failed = append(failed, fmt.Errorf("VNF instance %s: %w", t.Instance.ID, err))
		}
		return nil
	})
	return errors.Join(append(failed, err, s.fences.run(ctx, s.Now, longestFencePause, together, s.checkFence))...)
}

// fenced reports whether the storage server of the instance waits for an old one.
func fenced(t *tx.Tx) (bool, error) {
	id := t.Instance.CarriedOver.VolumeServer
	if id == "" {
		return false, nil
	}
	n, found, err := t.Nodes().Get(id)
	return err == nil && (!found || !n.Expected), err
}

// fence is what the cloud is asked: the servers and the volumes of an instance.
type fence struct {
	request      stack.Request
	old, present string
	volumes      []string
	// heir is the storage server that may write once the old one is gone, "" if nothing is kept.
	heir string
}

// checkFence asks the cloud once.
func (s *Service) checkFence(ctx context.Context, instanceID string) (gone bool, err error) {
	var f *fence
	err = s.Runner.View(instanceID, func(t *tx.Tx) (err error) {
		f, err = s.fenceOf(t)
		return err
	})
	if err != nil || f == nil {
		return f == nil, err
	}
	limited, cancel := context.WithTimeout(ctx, stack.Briefly)
	defer cancel()
	left, err := s.Observer.Source.Remains(limited, f.request, []string{f.old, f.present}, f.volumes)
	gone, shown := err == nil && left.Gone(f.old, f.present, f.volumes), left.Text(f.old, f.volumes)
	var problem *api.Problem
	switch {
	case errors.Is(err, stack.ErrNotGiven):
		shown = "no cloud is configured for this instance that could show it"
	case errors.As(err, &problem):
		shown = problem.Error()
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		shown = fmt.Sprintf("the cloud has not answered within %s", stack.Briefly)
	case err != nil:
		return false, err
	}
	return gone, s.Runner.Update(ctx, instanceID, func(t *tx.Tx) error {
		c := &t.Instance.CarriedOver
		now, err := s.fenceOf(t)
		if err != nil || now == nil || !reflect.DeepEqual(now, f) || !gone && c.VolumeServerShown == shown {
			return err
		}
		c.VolumeServerShown = shown
		if gone {
			c.VolumeServer, c.VolumeServerShown = f.heir, ""
			t.OnCommit(func() {
				s.Log.Info("the old storage server is gone, and the new one mounts its volumes", "instance", instanceID, "old", f.old, "new", f.present)
			})
		}
		return s.Reconciler.ReconcileAndFinish(t)
	})
}

// fenceOf is what there is to ask for the instance, nil for nothing.
func (s *Service) fenceOf(t *tx.Tx) (*fence, error) {
	if waits, err := fenced(t); !waits || err != nil {
		return nil, err
	}
	d, err := desired.InForce(t)
	if err != nil || d.Params == nil {
		return nil, err
	}
	out, _, err := s.Reconciler.Plan(t, d)
	if err != nil {
		return nil, err
	}
	f := &fence{old: t.Instance.CarriedOver.VolumeServer, request: stack.Request{InstanceID: t.Instance.ID, StackID: d.StackID}}
	if d.Params.Cluster == nil || d.Params.Cluster.StorageServer == nil {
		return nil, nil
	}
	for _, n := range out.Nodes {
		if n.Role == api.RoleStorage {
			f.present = n.ID
		}
	}
	for _, wanted := range d.Params.Cluster.StorageServer.Volumes {
		id := t.Instance.CarriedOver.VolumeIDs[wanted.ResourceID]
		if i := slices.IndexFunc(out.Volumes, func(v plan.VolumeUse) bool { return v.ResourceID == wanted.ResourceID }); id == "" && i >= 0 {
			id = out.Volumes[i].ID
		}
		if id == "" {
			return nil, nil // the topology does not have it yet
		}
		f.volumes = append(f.volumes, id)
	}
	if f.present == "" {
		return nil, nil
	}
	if d.Params.Cluster.StorageServer.KeepVolumes {
		f.heir = f.present
	}
	f.request.VIM, err = t.Store.Unseal(d.VIMConnectionInfo)
	return f, err
}
