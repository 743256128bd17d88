// Package discovery observes the stack of an instance because of what a machine says. If a
// server calls that no topology names, it adds the servers that Heat made for it, so that
// machines converge while Heat still creates the stack. If a node reports a disk of
// another size than its volume, it learns the sizes of volumes that were extended. If a
// server falls silent that is to leave, it retires it once the stack no longer has it.
package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Service discovers servers. Its exported fields are set before use; its methods may be
// called at the same time.
type Service struct {
	Runner     *tx.Runner
	Observer   *stack.Observer
	Reconciler *reconcile.Reconciler
	Now        func() time.Time
	Log        *slog.Logger

	backoff               backoff
	sizes, silent, fences schedule
}

// Discover observes the instance's stack for a server that came with a good join token
// and that no topology names, and adds what it finds there to the topology in force.
// Nothing leaves that topology here, and no server in it is changed. Observations are
// few: one at a time for each instance, and at most one in ten seconds, in five minutes
// while they find nothing.
//
// nil means that the topology may now name the server. A not-found says why it does not;
// any other error means that the stack could not be observed.
func (s *Service) Discover(ctx context.Context, instanceID, serverID string) error {
	now := s.Now()
	a, first, wait := s.backoff.begin(instanceID, now)
	if wait > 0 { // the attempt is over, so its outcome can be read
		if _, known := a.refused[serverID]; !known {
			return notAdded("the stack was observed %v ago; the next observation is possible in %v", a.age(now), wait.Round(time.Second))
		}
	}
	if first {
		s.attempt(ctx, instanceID, a)
	}
	select {
	case <-a.done:
		return a.answer(serverID)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset lets the next server that calls cause an observation at once: a request came, and the
// instance may have another stack now. It may also have named servers as leaving that are
// silent already.
func (s *Service) Reset(instanceID string) {
	s.backoff.reset(instanceID)
	s.sizes.reset(instanceID)
	s.fences.reset(instanceID)
	s.silent.reset(instanceID)
	s.silent.note(instanceID)
}

// attempt discovers for all that wait for it: it does not end with the caller that asked
// first.
func (s *Service) attempt(ctx context.Context, instanceID string, a *attempt) {
	ctx = context.WithoutCancel(ctx)
	var added *addition
	err := errors.New("the observation of the stack was interrupted")
	defer func() { s.backoff.end(instanceID, a, added, err, s.Now()) }()
	err = s.observe(ctx, instanceID, mayAdd, func(t *tx.Tx, o *stack.Observation) error {
		added, err = s.add(t, o)
		return err
	})
	if added != nil && len(added.refused) > 0 {
		s.Log.Info("servers of the stack that are not added to the topology", "instance", instanceID, "refused", added.refused)
	}
}

// observe observes the instance's stack, and acts on what it found. may says why not,
// before the cloud is asked and again before the action.
func (s *Service) observe(ctx context.Context, instanceID string, may func(*tx.Tx) error, act func(*tx.Tx, *stack.Observation) error) error {
	return s.Observer.Try(instanceID, func() error {
		o := &stack.Observation{Request: stack.Request{InstanceID: instanceID}, ByName: true}
		err := s.Runner.View(instanceID, func(t *tx.Tx) error {
			d, err := desired.Record(t)
			return cmp.Or(may(t), err, o.Complete(t, d))
		})
		if err != nil {
			return err
		}
		if o.StackID == "" {
			return notAdded("no stack is known of VNF instance %s", instanceID)
		}
		if err := s.Observer.Observe(ctx, o, stack.Within); err != nil {
			return err
		}
		switch {
		case o.Away != nil:
			return o.Away
		case o.Gone != nil:
			return notAdded("there is no stack %s", o.StackID)
		case stack.Deleted(o.Found):
			return notAdded("stack %s is %s", o.StackID, o.Found.StackStatus)
		case o.Found == nil:
			return notAdded("no cloud is configured for VNF instance %s", instanceID)
		}
		return s.Runner.Update(ctx, instanceID, func(t *tx.Tx) error {
			if err := s.Observer.Current(t, o); err != nil {
				return err
			}
			if err := may(t); err != nil {
				return err
			}
			return act(t, o)
		})
	})
}

// mayAdd refuses servers of an instance that is to end, or whose nodes are refused.
func mayAdd(t *tx.Tx) error {
	if err := t.RequireConfirmed(); err != nil {
		return err
	}
	history, err := t.History()
	if err != nil || len(history) == 0 {
		return err
	}
	if terminating(t, history[0]) {
		return notAdded("VNF instance %s is being terminated: operation %s", t.Instance.ID, history[0].ID)
	}
	return nil
}

// terminating says that the newest operation is a TERMINATE START in force.
func terminating(t *tx.Tx, o store.Operation) bool {
	return o.Operation.Operation == api.Terminate && o.Phase == api.PhaseStart && o.State != api.Failed && t.Now.Before(o.Deadline)
}

// notAdded is why a server that called is not in the topology.
func notAdded(format string, args ...any) error {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf(format, args...))
}
