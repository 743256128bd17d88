// Package operation decides whether a START or an END is admitted, and what it changes:
// which desired state it puts in force, which nodes it waits for, which operation it ends,
// and what may be cancelled. Package completion decides when the operation is over.
package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// defaultDeadline is the deadline in seconds of a request that gives none.
const defaultDeadline = 1800

// Service takes operations. Its fields are set before use; its methods may be called at
// the same time. Errors that a client should see are *api.Problem.
type Service struct {
	Runner     *tx.Runner
	Observer   *stack.Observer
	Reconciler *reconcile.Reconciler
	Completion *completion.Evaluator
	Files      *packagefile.Validator
	// Accepted is called after each request that was accepted: the stack of the instance
	// may be another.
	Accepted func(instanceID string)
}

// PostOperation takes one phase of an operation. A START is over at once if its request is
// valid and its files are there; it only waits for what has to leave the cluster first:
// PersistentVolumes, members. An END is over when every target has applied its present document, which may be at
// once too. With an idempotency key it joins the operation in progress, returns the one
// that succeeded, and begins anew after one that failed, or a START whose END has.
// TERMINATE supersedes what is in progress; a second TERMINATE joins the first, and a key
// that is older than a TERMINATE begins nothing. The statement that an old storage server is off
// joins the END that waits for that server. If the request began nothing, the operation is Joined.
func (s *Service) PostOperation(ctx context.Context, instanceID string, r api.OperationRequest) (api.Operation, error) {
	if r.Phase == "" {
		r.Phase = api.PhaseEnd
	}
	if r.DeadlineSeconds == 0 {
		r.DeadlineSeconds = defaultDeadline
	}
	faults := slices.Concat(checkRequest(r), topology.Validate(r.Topology, desired.AtTopology), topology.CheckStackID(r.StackID, r.Topology, desired.AtTopology))
	if err := api.Invalid(faults); err != nil {
		return api.Operation{}, err
	}
	op, taken, err := s.state(ctx, instanceID, r)
	if err != nil || taken {
		return op.Operation, err
	}
	err = s.Observer.Try(instanceID, func() error {
		o, known, err := s.observe(ctx, instanceID, r)
		if err != nil || o == nil {
			op = known
			return err
		}
		return s.Runner.Update(ctx, instanceID, func(t *tx.Tx) error {
			if err := s.Observer.Current(t, o); err != nil {
				return err
			}
			op, err = s.post(ctx, t, r, o)
			op.VnfInstanceName = t.Instance.Name
			return err
		})
	})
	if err == nil {
		s.Accepted(instanceID)
	}
	return op.Operation, err
}

// remakes reports whether another stack of the same name is what the operation may be about.
func remakes(r api.OperationRequest) bool {
	return r.Operation == api.Instantiate || r.Operation == api.Heal && len(r.VnfcInstanceIds) == 0
}

// leavesStack reports whether the operation has nothing to do with the stack, which may
// not even exist: MODIFY_INFO, unless the request itself names a stack.
func leavesStack(r api.OperationRequest) bool {
	return r.Operation == api.ModifyInfo && r.StackID == "" && r.Topology == nil
}

// observe observes the stack of an operation, or returns the one that its idempotency
// key means: that one has observed. No cloud is asked for a request that is refused
// whatever the stack is, nor for TERMINATE, which has to be possible when the stack, or
// the whole cloud, is no more.
func (s *Service) observe(ctx context.Context, instanceID string, r api.OperationRequest) (o *stack.Observation, known store.Operation, err error) {
	o = &stack.Observation{Request: stack.Request{InstanceID: instanceID, StackID: r.StackID, Inline: r.Topology}, ByName: remakes(r)}
	attached := false
	err = s.Runner.View(instanceID, func(t *tx.Tx) error {
		h, err := readHistory(t, r)
		if err != nil {
			return err
		}
		known, attached, err = attach(t, h)
		known.VnfInstanceName = t.Instance.Name
		if attached || err != nil {
			return err
		}
		d, err := desired.Record(t)
		if err != nil {
			return err
		}
		return o.Complete(t, d)
	})
	if err != nil || attached {
		return nil, known, err
	}
	switch {
	case r.Operation == api.Terminate, leavesStack(r):
		err = s.Observer.TakeGiven(ctx, o)
	case r.Phase == api.PhaseStart:
		err = s.Observer.Observe(ctx, o, stack.Briefly)
	default:
		err = s.Observer.Observe(ctx, o, stack.Within)
	}
	if err == nil {
		err = s.lookAtOld(ctx, r, o)
	}
	if err != nil {
		return nil, known, err
	}
	return o, known, o.Whole()
}

// GetOperation is one operation.
func (s *Service) GetOperation(_ context.Context, instanceID string, sequence int64) (api.Operation, error) {
	var op store.Operation
	err := s.Runner.View(instanceID, func(t *tx.Tx) (err error) {
		op, err = s.onRecord(t, sequence)
		op.VnfInstanceName = t.Instance.Name
		return err
	})
	return op.Operation, err
}

// onRecord is an operation of the instance that a client has named.
func (s *Service) onRecord(t *tx.Tx, sequence int64) (store.Operation, error) {
	if sequence < 1 || sequence > t.Instance.LastSequence {
		return store.Operation{}, api.NewProblem(api.ProblemNotFound, fmt.Sprintf("%s has no operation %d", t.Instance.Title(), sequence))
	}
	op, found, err := t.Operations().Get(store.OperationKey(t.Instance.ID, sequence))
	if err == nil && !found {
		err = api.NewProblem(api.ProblemNotFound, fmt.Sprintf(
			"operation %s is no longer on record: %s", api.OperationID(t.Instance.ID, sequence), s.Runner.Keep))
	}
	return op, err
}

// ListOperations is the operations of one instance, of all for "", newest first.
func (s *Service) ListOperations(_ context.Context, instanceID string) ([]api.Operation, error) {
	var records []store.Operation
	err := s.Runner.Store.View(func(t *store.Tx) error {
		prefix := ""
		if instanceID != "" {
			if _, found, err := t.Instances().Get(instanceID); err != nil {
				return err
			} else if !found {
				return tx.NoInstance(instanceID)
			}
			prefix = store.InstancePrefix(instanceID)
		}
		var err error
		if records, err = t.Operations().Prefix(prefix); err != nil {
			return err
		}
		names, err := t.InstanceNames()
		for i := range records {
			records[i].VnfInstanceName = names[records[i].VnfInstanceID]
		}
		return err
	})
	slices.SortFunc(records, func(a, b store.Operation) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(a.VnfInstanceID, b.VnfInstanceID), cmp.Compare(b.Sequence, a.Sequence))
	})
	list := make([]api.Operation, len(records))
	for i, r := range records {
		list[i] = r.Operation
	}
	return list, err
}

// Sweep fails operations whose time is over (see completion.Evaluator.FailsAt), and takes back a START
// whose END did not come in time.
func (s *Service) Sweep(ctx context.Context) error {
	var failed []error
	var overdue []string
	err := s.Runner.ViewAll(func(t *tx.Tx) error {
		due, err := s.due(t)
		if due {
			overdue = append(overdue, t.Instance.ID)
		}
		if err != nil { // the others must not wait for it
			failed = append(failed, fmt.Errorf("VNF instance %s: %w", t.Instance.ID, err))
		}
		return nil
	})
	for _, id := range overdue {
		if err := s.Runner.Update(ctx, id, s.overdue); err != nil {
			failed = append(failed, fmt.Errorf("VNF instance %s: %w", id, err))
		}
	}
	return errors.Join(append(failed, err)...)
}

// due reports whether the time of an operation of the instance is over.
func (s *Service) due(t *tx.Tx) (bool, error) {
	for _, sequence := range []int64{t.Instance.ProcessingSequence, t.Instance.AwaitingEndSequence} {
		if sequence == 0 {
			continue
		}
		op, err := t.Operation(sequence)
		if err != nil {
			return false, err
		}
		if !t.Now.Before(s.Completion.FailsAt(op)) {
			return true, nil
		}
	}
	return false, nil
}

// overdue takes back a START that waited for too long, and reconciles, which fails the
// operation in progress when its time is over.
func (s *Service) overdue(t *tx.Tx) error {
	if t.Instance.AwaitingEndSequence != 0 {
		start, err := t.Operation(t.Instance.AwaitingEndSequence)
		if err != nil {
			return err
		}
		if !t.Now.Before(start.Deadline) {
			if err := s.Completion.Stop(t, &start, api.ProblemInterrupted, "its END did not come before "+start.Deadline.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
	}
	return s.Reconciler.ReconcileAndFinish(t)
}
