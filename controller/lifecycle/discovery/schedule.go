package discovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/shared/api"
)

// schedule is when the stacks of instances are observed because of something that was
// noted. It is in memory only. Observations are few, whatever is noted: between two of an
// instance the pause grows from ten seconds to the longest while they do not find what is
// looked for, and one is repeated only until the pause is the longest.
type schedule struct {
	mu  sync.Mutex
	all map[string]scheduled // by instance
}

// scheduled is when the stack may be observed next.
type scheduled struct {
	// due: it is to be observed from next on.
	due   bool
	next  time.Time
	pause time.Duration
}

// How many instances are observed at once.
const (
	oneByOne = 1
	together = 16
)

// note makes an observation due.
func (s *schedule) note(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string]scheduled)
	}
	r := s.all[instanceID]
	r.due = true
	s.all[instanceID] = r
}

// run calls observe for each instance that is due, one after the other or together. found says that
// there is nothing left to look for. Of errors it returns those that are no problems of the cloud or
// the instance.
func (s *schedule) run(ctx context.Context, now func() time.Time, longest time.Duration, atOnce int, observe func(ctx context.Context, instanceID string) (found bool, err error)) error {
	ids := s.due(now())
	failed := make([]error, len(ids))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, id := range ids {
		all.Go(func() error {
			found, err := observe(ctx, id)
			var problem *api.Problem
			if err != nil && !errors.As(err, &problem) {
				failed[i] = err
			}
			s.observed(id, found, now(), longest)
			return nil
		})
	}
	_ = all.Wait() // each has its own
	return errors.Join(failed...)
}

// due are the instances to observe now.
func (s *schedule) due(now time.Time) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.all {
		switch {
		case r.due && !now.Before(r.next):
			r.due = false
			s.all[id] = r
			ids = append(ids, id)
		case !r.due && now.Sub(r.next) > longestPause: // nothing was noted for a long time
			delete(s.all, id)
		}
	}
	return ids
}

// observed sets when the next observation may be.
func (s *schedule) observed(instanceID string, found bool, now time.Time, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[instanceID]
	if found {
		r.pause = 0
	}
	r.pause = min(max(shortestPause, 2*r.pause), longest)
	r.next = now.Add(r.pause)
	r.due = r.due || !found && r.pause < longest
	s.all[instanceID] = r
}

// reset lets the next observation be at once.
func (s *schedule) reset(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.all[instanceID]; ok {
		s.all[instanceID] = scheduled{due: r.due}
	}
}
