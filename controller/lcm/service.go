// Package lcm is the life cycle of VNF instances: their parameters, the operations
// on them, and the nodes that follow from both. Every change is one transaction
// that puts a version of the desired state in force, plans, writes each node's
// document and looks whether the operation at work is done; so nothing can be
// half changed, and a restart finds what it needs in the store. It never talks to
// a node: nodes pull.
package lcm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// lostAfter is how many cadences a node may be silent.
const lostAfter = 3

// Service is the life cycle. All fields but the unexported are set before use and
// never changed. Its methods may be called at the same time; errors that a client
// should see are *api.Problem.
type Service struct {
	Store *store.Store
	// Files has the content of package files.
	Files Blobs
	// Enrolment has the identities of nodes, Permits the permits to format volumes.
	Enrolment Identities
	Permits   Permits
	Source    stack.Source
	Hub       *notify.Hub
	Now       func() time.Time
	Log       *slog.Logger
	// Cadence is how often a node is heard of at least: the controller's long poll.
	Cadence time.Duration

	presence  presence
	unplanned unplanned
	looks     looks
	knocks    knocks
}

// Blobs is the content of package files by SHA-256.
type Blobs interface {
	Open(sha256 string) (*os.File, error)
}

// Identities are the identities of nodes.
type Identities interface {
	// NewJoinToken puts a new join token into the instance.
	NewJoinToken(tx *store.Tx, instance *store.Instance) error
	// RevokeTx makes a node's identity void; a node without one is no error.
	RevokeTx(tx *store.Tx, nodeID, why string) error
}

// Permits are the permits to format volumes.
type Permits interface {
	// NodeGone interrupts what the node has begun and not reported as done.
	NodeGone(tx *store.Tx, nodeID string) error
}

// unit is one transaction on one instance.
type unit struct {
	*Service
	tx   *store.Tx
	now  time.Time
	inst store.Instance
	// before is the instance as it was found.
	before store.Instance
	// dirty says that a record was written. A transaction that wrote nothing is
	// rolled back, which costs no write to the disk.
	dirty bool
	// deleted says that the instance is gone and must not be saved again.
	deleted bool
	wake    []string
	// others are instances whose plan may have changed with this one's.
	others []string
}

var errClean = errors.New("nothing changed")

// update runs fn in one transaction on the instance, saves what fn changed of it
// and wakes who waits, after the commit. An instance that does not exist is a problem.
func (s *Service) update(ctx context.Context, instanceID string, fn func(*unit) error) error {
	return s.transact(ctx, func(tx *store.Tx) (*unit, error) {
		inst, found, err := tx.Instances().Get(instanceID)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, noInstance(instanceID)
		}
		return s.newUnit(tx, inst), nil
	}, fn)
}

func (s *Service) newUnit(tx *store.Tx, inst store.Instance) *unit {
	u := &unit{Service: s, tx: tx, now: s.Now().UTC(), inst: inst, before: inst}
	u.inst.NodeIDs, u.inst.VolumeIDs = slices.Clone(inst.NodeIDs), slices.Clone(inst.VolumeIDs)
	return u
}

func (s *Service) transact(ctx context.Context, begin func(*store.Tx) (*unit, error), fn func(*unit) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var u *unit
	err := s.Store.Update(func(tx *store.Tx) error {
		var err error
		if u, err = begin(tx); err != nil {
			return err
		}
		if err := fn(u); err != nil {
			return err
		}
		return u.finish()
	})
	if errors.Is(err, errClean) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Hub.Changed(u.wake...)
	for _, id := range u.others {
		if err := s.Reconcile(context.WithoutCancel(ctx), id); err != nil {
			s.Log.Error("planning again an instance that shares a volume", "instance", id, "error", err)
		}
	}
	return nil
}

// finish saves the instance where it changed.
func (u *unit) finish() error {
	if !u.deleted && !same(u.before, u.inst) {
		u.dirty = true
		if err := u.tx.Instances().Put(u.inst.ID, u.inst); err != nil {
			return err
		}
	}
	if !u.dirty {
		return errClean
	}
	u.wake = append(u.wake, u.inst.ID, notify.Instances)
	return nil
}

func (u *unit) changed(keys ...string) {
	u.dirty = true
	u.wake = append(u.wake, keys...)
}

// view runs fn on one snapshot of the instance.
func (s *Service) view(instanceID string, fn func(*unit) error) error {
	return s.Store.View(func(tx *store.Tx) error {
		inst, found, err := tx.Instances().Get(instanceID)
		if err != nil {
			return err
		}
		if !found {
			return noInstance(instanceID)
		}
		return fn(s.newUnit(tx, inst))
	})
}

// Reconcile plans an instance again: after a change that was made elsewhere, such
// as a volume that was adopted. Without a change it writes nothing. The empty id is
// that of volumes that no instance has.
func (s *Service) Reconcile(ctx context.Context, instanceID string) error {
	if instanceID == "" {
		return nil
	}
	err := s.update(ctx, instanceID, func(u *unit) error { return u.settle() })
	var problem *api.Problem
	if errors.As(err, &problem) && problem.Type == api.ProblemNotFound {
		return nil // it was deleted meanwhile
	}
	return err
}

// settle brings nodes, volumes and the operation at work in line with the desired
// state in force. What changes is not the operation's doing.
func (u *unit) settle() error {
	if _, err := u.follow(); err != nil {
		return err
	}
	return u.evaluate(nil)
}

func noInstance(id string) error {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf(
		"there is no VNF instance %s; make it with PUT /v1/vnf_instances/%s", id, id))
}

func conflict(format string, args ...any) error {
	return api.NewProblem(api.ProblemConflict, fmt.Sprintf(format, args...))
}

func invalid(faults fault.List) error {
	if len(faults) == 0 {
		return nil
	}
	return api.NewInvalid(faults)
}
