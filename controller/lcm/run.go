package lcm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// sweepEvery is how late a deadline can be noticed.
const sweepEvery = time.Second

// Run does what no request triggers, until ctx ends: it takes up what a restart or
// a restore has left (a new epoch is in every document), fails operations at their
// deadline, takes back a START whose END did not come, and notices lost nodes.
func (s *Service) Run(ctx context.Context) error {
	s.presence.start(s.Now())
	if err := s.expectNodes(); err != nil {
		return err
	}
	if err := s.reconcileAll(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("looking for operations that are due", "error", err)
		}
	}
}

// reconcileAll goes on past an instance that cannot be planned: the others must not
// wait for it.
func (s *Service) reconcileAll(ctx context.Context) error {
	all, err := s.instances()
	if err != nil {
		return err
	}
	for _, inst := range all {
		if err := errors.Join(s.judgeLeft(ctx, inst.ID), s.Reconcile(ctx, inst.ID)); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the end of ctx is how Run is told to stop
			}
			s.Log.Error("taking up an instance", "instance", inst.ID, "error", err)
		}
	}
	return nil
}

func (s *Service) instances() (all []store.Instance, err error) {
	err = s.Store.View(func(tx *store.Tx) error {
		all, err = tx.Instances().All()
		return err
	})
	return all, err
}

// Sweep does once what Run does every second.
func (s *Service) Sweep(ctx context.Context) error {
	var failed []error
	if lost := s.presence.newlyLost(s.Now(), lostAfter*s.Cadence); len(lost) > 0 {
		s.Hub.Changed(notify.Nodes)
		failed = append(failed, s.presenceChanged(ctx, lost...))
	}
	all, err := s.instances()
	if err != nil {
		return err
	}
	for _, inst := range all {
		if inst.Processing == 0 && inst.Awaiting == 0 {
			continue
		}
		due, err := s.due(inst)
		if err == nil && due {
			err = s.update(ctx, inst.ID, (*unit).overdue)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("VNF instance %s: %w", inst.ID, err))
		}
	}
	return errors.Join(failed...)
}

// expectNodes has the silence of every node count from now on.
func (s *Service) expectNodes() error {
	return s.Store.View(func(tx *store.Tx) error {
		nodes, err := tx.Nodes().All()
		for _, n := range nodes {
			if n.Identity.Live() {
				s.presence.expect(n.ID)
			}
		}
		return err
	})
}

// presenceChanged plans again where a master fell silent or came back, for another one
// may have to speak for its cluster, or a storage server, whose word counts only while
// it is heard of.
func (s *Service) presenceChanged(ctx context.Context, ids ...string) error {
	instances := map[string]bool{}
	err := s.Store.View(func(tx *store.Tx) error {
		for _, id := range ids {
			n, found, err := tx.Nodes().Get(id)
			if err != nil {
				return err
			}
			if found && (n.Role == api.RoleMaster || n.Role == api.RoleStorage) {
				instances[n.InstanceID] = true
			}
		}
		return nil
	})
	for id := range instances {
		err = errors.Join(err, s.Reconcile(ctx, id))
	}
	return err
}

// due says whether a deadline of the instance has passed.
func (s *Service) due(inst store.Instance) (due bool, err error) {
	err = s.Store.View(func(tx *store.Tx) error {
		u := s.newUnit(tx, inst)
		for _, sequence := range []int64{inst.Processing, inst.Awaiting} {
			if sequence == 0 {
				continue
			}
			op, err := u.operation(sequence)
			if err != nil {
				return err
			}
			due = due || !u.now.Before(op.Deadline)
		}
		return nil
	})
	return due, err
}

// overdue takes back a START that waited for too long, and looks at the operation
// at work, which settle fails when its time is over.
func (u *unit) overdue() error {
	if u.inst.Awaiting != 0 {
		start, err := u.operation(u.inst.Awaiting)
		if err != nil {
			return err
		}
		if !u.now.Before(start.Deadline) {
			if err := u.interrupt(start, "its END did not come before "+stamp(start.Deadline)); err != nil {
				return err
			}
		}
	}
	return u.settle()
}
