package lcm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// defaultDeadline is the deadline in seconds of who gives none.
const defaultDeadline = 1800

// PostOperation takes one phase of an operation. A START is over at once: what it
// asks for is valid and its files are there; only PersistentVolumes that have to be
// gone first are waited for. An END is over when every target has proven its present
// document, which may be at once too. With an idempotency key it joins the operation
// that is at work, returns the one that succeeded, and begins anew after one that
// failed.
func (s *Service) PostOperation(ctx context.Context, instanceID string, r api.OperationRequest) (api.Operation, error) {
	if r.Phase == "" {
		r.Phase = api.PhaseEnd
	}
	if r.DeadlineSeconds == 0 {
		r.DeadlineSeconds = defaultDeadline
	}
	faults := slices.Concat(checkRequest(r), topology.Validate(r.Topology, atTopology), checkStack(r.StackID, r.Topology))
	if err := invalid(faults); err != nil {
		return api.Operation{}, err
	}
	var op store.Operation
	err := s.looking(instanceID, func() error {
		l, known, err := s.lookForOperation(ctx, instanceID, r)
		if err != nil || l == nil {
			op = known
			return err
		}
		return s.update(ctx, instanceID, func(u *unit) error {
			if err := u.current(l); err != nil {
				return err
			}
			op, err = u.post(r, l)
			return err
		})
	})
	if err == nil {
		s.knocks.reset(instanceID)
	}
	return op.Operation, err
}

// remakes says whether another stack of the same name is what the operation may be about.
func remakes(r api.OperationRequest) bool {
	return r.Operation == api.Instantiate || r.Operation == api.Heal && len(r.VnfcInstanceIds) == 0
}

// lookForOperation looks into the stack of an operation, or returns the one that its
// idempotency key means: that one has looked. Nobody is asked for a request that is
// refused whatever the stack is, nor for TERMINATE, which has to be possible when the
// stack, or the whole cloud, is no more.
func (s *Service) lookForOperation(ctx context.Context, instanceID string, r api.OperationRequest) (l *look, known store.Operation, err error) {
	l = &look{Request: stack.Request{InstanceID: instanceID, StackID: r.StackID, Inline: r.Topology}}
	joins := false
	err = s.view(instanceID, func(u *unit) error {
		p, err := u.posting(r, l)
		if err != nil {
			return err
		}
		if known, joins, err = p.admitted(); joins || err != nil {
			return err
		}
		l.strict = !remakes(r)
		return u.fill(l)
	})
	if err != nil || joins {
		return nil, known, err
	}
	source, within := s.Source, lookWithin
	if r.Phase == api.PhaseStart {
		within = lookBriefly
	}
	if r.Operation == api.Terminate {
		source = stack.Inline{}
	}
	if err := s.ask(ctx, source, l, within); err != nil {
		return nil, known, err
	}
	return l, known, l.whole()
}

// checkRequest is what is wrong with a request whatever the instance is.
func checkRequest(r api.OperationRequest) fault.List {
	var list fault.List
	wrong := func(key, format string, args ...any) {
		list = append(list, fault.Root.Key(key).Fault(fmt.Sprintf(format, args...)))
	}
	if !r.Operation.Valid() {
		wrong("operation", "is %q; expected INSTANTIATE, SCALE, HEAL or TERMINATE", r.Operation)
	}
	if !r.Phase.Valid() {
		wrong("phase", "is %q; expected START or END", r.Phase)
	}
	if r.DeadlineSeconds < 1 || r.DeadlineSeconds > 86400 {
		wrong("deadlineSeconds", "is %d; expected 1 to 86400", r.DeadlineSeconds)
	}
	if r.Operation == api.Scale {
		if !r.Type.Valid() {
			wrong("type", "is %q; SCALE needs SCALE_IN or SCALE_OUT", r.Type)
		}
		if r.NumberOfSteps < 0 {
			wrong("numberOfSteps", "is %d; expected 1 or more", r.NumberOfSteps)
		}
	} else {
		for key, given := range map[string]bool{"type": r.Type != "", "aspectId": r.AspectID != "", "numberOfSteps": r.NumberOfSteps != 0} {
			if given {
				wrong(key, "belongs to SCALE; leave it out of %s", r.Operation)
			}
		}
	}
	leaving := r.Operation == api.Heal || (r.Operation == api.Scale && r.Type == api.ScaleIn)
	if len(r.VnfcInstanceIds) > 0 && !leaving {
		wrong("vnfcInstanceIds", "belongs to HEAL and SCALE_IN; leave it out")
	}
	if r.Operation == api.Scale && r.Type == api.ScaleIn && r.Phase == api.PhaseStart && len(r.VnfcInstanceIds) == 0 {
		wrong("vnfcInstanceIds", "is empty; SCALE_IN START names the VNFC instances that leave")
	}
	slices.SortFunc(list, func(a, b fault.Fault) int { return cmp.Compare(a.Pointer, b.Pointer) })
	return list
}

// GetOperation is one operation.
func (s *Service) GetOperation(_ context.Context, instanceID, operationID string) (api.Operation, error) {
	var op store.Operation
	err := s.view(instanceID, func(u *unit) error {
		sequence, err := strconv.ParseInt(operationID, 10, 64)
		var found bool
		if err == nil && sequence > 0 && operationName(sequence) == operationID {
			if op, found, err = u.tx.Operations().Get(store.OperationKey(u.inst.ID, sequence)); err != nil {
				return err
			}
		}
		if !found {
			return api.NewProblem(api.ProblemNotFound, fmt.Sprintf("VNF instance %s has no operation %q", u.inst.ID, operationID))
		}
		return nil
	})
	return op.Operation, err
}

// operationName is the id of an operation, unique in its instance.
func operationName(sequence int64) string { return strconv.FormatInt(sequence, 10) }

// ListOperations is the operations of one instance, of all for "", newest first.
func (s *Service) ListOperations(_ context.Context, instanceID string) ([]api.Operation, error) {
	var records []store.Operation
	err := s.Store.View(func(tx *store.Tx) error {
		prefix := ""
		if instanceID != "" {
			if _, found, err := tx.Instances().Get(instanceID); err != nil || !found {
				return first(err, noInstance(instanceID))
			}
			prefix = store.InstancePrefix(instanceID)
		}
		var err error
		records, err = tx.Operations().Prefix(prefix)
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

func (u *unit) operation(sequence int64) (store.Operation, error) {
	op, found, err := u.tx.Operations().Get(store.OperationKey(u.inst.ID, sequence))
	if err == nil && !found {
		err = fmt.Errorf("operation %d of VNF instance %s is missing from the store", sequence, u.inst.ID)
	}
	return op, err
}

func (u *unit) saveOperation(op store.Operation) error {
	u.changed(notify.Operations, notify.OperationKey(u.inst.ID, op.ID))
	return u.tx.Operations().Put(store.OperationKey(u.inst.ID, op.Sequence), op)
}

func (u *unit) inProgress() error {
	op, err := u.operation(u.inst.Processing)
	if err != nil {
		return err
	}
	return api.NewProblem(api.ProblemOperationInProgress, fmt.Sprintf(
		"operation %s (%s) of VNF instance %s is at work since %s, until %s at the latest; wait for it with GET /v1/vnf_instances/%s/operations/%s?wait=60s",
		op.ID, describe(op.Request), u.inst.ID, stamp(op.StartedAt), stamp(op.Deadline), u.inst.ID, op.ID))
}
