package discovery

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// SizeDiffers notes that a node reports a disk of another size than its volume. LearnSizes
// observes the stack.
func (s *Service) SizeDiffers(instanceID string) { s.sizes.note(instanceID) }

// LearnSizes observes the stacks of the instances for which that is due, and repeats one that
// finds no volume that was extended: Cinder may be the last to know.
func (s *Service) LearnSizes(ctx context.Context) error {
	return s.sizes.run(ctx, s.Now, longestPause, oneByOne, s.learnSizes)
}

// learnSizes puts the sizes of volumes that were extended in force, as a version of the
// desired state like a PUT's. A volume that is smaller than the topology says stays as it
// is there: Cinder cannot shrink one, so a request has given that size.
func (s *Service) learnSizes(ctx context.Context, instanceID string) (learned bool, err error) {
	err = s.observe(ctx, instanceID, mayLearnSizes, func(t *tx.Tx, o *stack.Observation) error {
		now, err := desired.InForce(t)
		if err != nil {
			return err
		}
		next := now.Desired
		var extended []string
		if next.Topology, extended = extend(now.Topology, o.Found); len(extended) == 0 {
			return nil
		}
		if _, err := desired.Activate(t, next, ""); err != nil {
			return err
		}
		t.OnCommit(func() {
			learned = true
			s.Log.Info("volumes of the stack were extended", "instance", instanceID, "volumes", extended)
		})
		return s.Reconciler.ReconcileAndFinish(t)
	})
	return learned, err
}

// mayLearnSizes refuses if no node reports of its present document that a size differs.
func mayLearnSizes(t *tx.Tx) error {
	if err := mayAdd(t); err != nil {
		return err
	}
	nodes, err := t.InstanceNodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if c := progress.ReportedForCurrent(n, t.Store.Epoch(), api.ConditionVolumesMounted); c != nil && c.Reason == api.ReasonSizeMismatch {
			return nil
		}
	}
	return notAdded("no node of VNF instance %s reports a disk of another size than its volume", t.Instance.ID)
}

// extend is the topology with the sizes of its volumes that are larger in the stack, and
// the ids of these. A volume without a size in the topology in force stays without one.
func extend(now, found *api.Topology) (*api.Topology, []string) {
	if now == nil {
		return nil, nil
	}
	next := *now
	next.Volumes = slices.Clone(now.Volumes)
	var ids []string
	for i, v := range next.Volumes {
		at := slices.IndexFunc(found.Volumes, func(o api.TopologyVolume) bool { return o.ID == v.ID })
		if at >= 0 && v.SizeBytes != 0 && found.Volumes[at].SizeBytes > v.SizeBytes {
			next.Volumes[i].SizeBytes = found.Volumes[at].SizeBytes
			ids = append(ids, v.ID)
		}
	}
	return &next, ids
}
