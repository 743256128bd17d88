package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/desired"
	"github.com/nodehitch/nodehitch/controller/progress"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// sizes are the instances with a node that has reported a disk of another size than its
// volume. They are in memory only.
type sizes struct {
	mu  sync.Mutex
	all map[string]sizeReport // by instance
}

// sizeReport is when the stack may be observed next because of sizes.
type sizeReport struct {
	// due: a node has reported it, and the stack is to be observed from next on.
	due   bool
	next  time.Time
	pause time.Duration
}

// SizeDiffers notes that a node reports a disk of another size than its volume. LearnSizes
// observes the stack.
func (s *Service) SizeDiffers(instanceID string) {
	s.sizes.mu.Lock()
	defer s.sizes.mu.Unlock()
	if s.sizes.all == nil {
		s.sizes.all = make(map[string]sizeReport)
	}
	r := s.sizes.all[instanceID]
	r.due = true
	s.sizes.all[instanceID] = r
}

// LearnSizes observes the stacks of the instances for which that is due. Observations are
// few, whatever nodes report: between two of an instance the pause grows from ten seconds
// to five minutes while they find no volume that was extended. Cinder may be the last to
// know, so an observation that finds none is repeated until the pause is the longest.
func (s *Service) LearnSizes(ctx context.Context) error {
	var failed []error
	for _, id := range s.sizes.due(s.Now()) {
		learned, err := s.learnSizes(ctx, id)
		var problem *api.Problem
		if err != nil && !errors.As(err, &problem) {
			failed = append(failed, err)
		}
		s.sizes.observed(id, learned, s.Now())
	}
	return errors.Join(failed...)
}

// due are the instances to observe now.
func (s *sizes) due(now time.Time) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.all {
		if r.due && !now.Before(r.next) {
			r.due = false
			s.all[id] = r
			ids = append(ids, id)
		}
	}
	return ids
}

// observed sets when the next observation may be.
func (s *sizes) observed(instanceID string, learned bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[instanceID]
	if learned {
		r.pause = 0
	}
	r.pause = min(max(shortestPause, 2*r.pause), longestPause)
	r.next = now.Add(r.pause)
	r.due = r.due || !learned && r.pause < longestPause
	s.all[instanceID] = r
}

func (s *sizes) reset(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.all[instanceID]; ok {
		s.all[instanceID] = sizeReport{due: r.due}
	}
}

// learnSizes puts the sizes of volumes that were extended in force, as a version of the
// desired state like a PUT's. A volume that is smaller than the topology says stays as it
// is there: Cinder cannot shrink one, so a request has given that size.
func (s *Service) learnSizes(ctx context.Context, instanceID string) (learned bool, err error) {
	err = s.observe(ctx, instanceID, sizeDiffers, func(t *tx.Tx, o *stack.Observation) error {
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

// sizeDiffers refuses if no node reports of its present document that a size differs.
func sizeDiffers(t *tx.Tx) error {
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
// the ids of these.
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
