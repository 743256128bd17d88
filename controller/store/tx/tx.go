// Package tx is one change of one VNF instance: its records in one transaction, what is
// woken by it, and what follows it. A Tx is passed to everything that has a part in the
// change, so nothing can be half changed.
package tx

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Runner runs transactions. Its methods may be called at the same time.
type Runner struct {
	Store *store.Store
	Hub   *notify.Hub
	Now   func() time.Time
	// Keep is how much of each instance's past is kept.
	Keep Retention
}

// Tx is one transaction on one instance. It must not be used after the function that
// got it returns.
type Tx struct {
	*store.Tx
	// Store has the keys that seal, and the epoch.
	Store *store.Store
	// Now is the time of the change.
	Now time.Time
	// Instance is saved at the end if it was changed.
	Instance store.Instance

	before  store.Instance
	dirty   bool
	deleted bool
	wake    []string
	after   []func(context.Context)
}

// Update runs fn in one transaction on an instance and, once that is on disk, wakes the
// waiters. A transaction that changed nothing costs no write and wakes no waiter. An
// instance that does not exist is a problem.
func (r *Runner) Update(ctx context.Context, instanceID string, fn func(*Tx) error) error {
	return r.Upsert(ctx, instanceID, func(t *Tx, found bool) error {
		if !found {
			return NoInstance(instanceID)
		}
		return fn(t)
	})
}

// Upsert is Update that lets fn make the instance if it was not found.
func (r *Runner) Upsert(ctx context.Context, instanceID string, fn func(t *Tx, found bool) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var t *Tx
	err := r.Store.Update(func(records *store.Tx) error {
		records.By(event.Caller(ctx))
		inst, found, err := records.Instances().Get(instanceID)
		if err != nil {
			return err
		}
		t = r.begin(records, inst)
		if err := fn(t, found); err != nil {
			return err
		}
		if err := t.retain(r.Keep); err != nil {
			return err
		}
		return t.save()
	})
	if err != nil || !t.dirty {
		return err
	}
	r.Hub.Changed(t.wake...)
	for _, do := range t.after {
		do(context.WithoutCancel(ctx))
	}
	return nil
}

// View runs fn on one snapshot of the instance, which has to exist.
func (r *Runner) View(instanceID string, fn func(*Tx) error) error {
	return r.Peek(instanceID, func(t *Tx, found bool) error {
		if !found {
			return NoInstance(instanceID)
		}
		return fn(t)
	})
}

// Peek runs fn on one snapshot of an instance that may not exist.
func (r *Runner) Peek(instanceID string, fn func(t *Tx, found bool) error) error {
	return r.Store.View(func(records *store.Tx) error {
		inst, found, err := records.Instances().Get(instanceID)
		if err != nil {
			return err
		}
		return fn(r.begin(records, inst), found)
	})
}

// ViewAll runs fn on each instance, all of one snapshot, ordered by id.
func (r *Runner) ViewAll(fn func(*Tx) error) error {
	return r.Store.View(func(records *store.Tx) error {
		all, err := records.Instances().All()
		if err != nil {
			return err
		}
		for _, inst := range all {
			if err := fn(r.begin(records, inst)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Runner) begin(records *store.Tx, inst store.Instance) *Tx {
	// A time in a record has no reading of the monotonic clock, whether it is read again or not.
	t := &Tx{Tx: records, Store: r.Store, Now: r.Now().UTC().Round(0), Instance: inst, before: inst}
	t.Instance.NodeIDs, t.Instance.VolumeIDs = slices.Clone(inst.NodeIDs), slices.Clone(inst.VolumeIDs)
	return t
}

func (t *Tx) save() error {
	if !t.deleted && !store.Same(t.before, t.Instance) {
		t.dirty = true
		if err := t.Instances().Put(t.Instance.ID, t.Instance); err != nil {
			return err
		}
	}
	if t.dirty {
		t.wake = append(t.wake, t.Instance.ID, notify.Instances)
	}
	return nil
}

// Changed says that a record was written, and which waits it wakes: keys of notify.Hub.
func (t *Tx) Changed(keys ...string) {
	t.dirty = true
	t.wake = append(t.wake, keys...)
}

// Dirty reports whether a record was written; a change of Instance alone is none yet.
func (t *Tx) Dirty() bool { return t.dirty }

// After runs fn once the transaction is on disk and the waiters are woken.
func (t *Tx) After(fn func(context.Context)) { t.after = append(t.after, fn) }

// Delete deletes the instance's own record.
func (t *Tx) Delete() error {
	t.deleted = true
	t.Changed()
	return t.Instances().Delete(t.Instance.ID)
}

// NoInstance is the problem of an instance that does not exist.
func NoInstance(id string) error {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf(
		"there is no VNF instance %s; PUT /v1/vnf_instances/%s makes it", id, id)).With(api.Action{Call: api.CallPutInstance, ID: id})
}
