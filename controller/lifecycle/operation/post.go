package operation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// posting is a request for an operation, in one transaction.
type posting struct {
	s *Service
	t *tx.Tx
	r api.OperationRequest
	// stack is what the request or Heat says of it, given what of that is to be in force,
	// nil for nothing.
	stack *stack.Observation
	given *api.Topology
	// before is the desired state in force, next the one that the request asks for.
	before *desired.State
	next   store.Desired
	// history is the operations of the instance, newest first.
	history []store.Operation
	// base is what the operation is measured against; see store.Operation.
	base         int64
	baseTopology *api.Topology
}

func (s *Service) posting(t *tx.Tx, r api.OperationRequest, o *stack.Observation) (*posting, error) {
	history, err := t.History()
	return &posting{s: s, t: t, r: r, stack: o, history: history}, err
}

// existing is the operation that the request joins or asks for again, with true; or the
// reason why no operation can begin now.
func (p *posting) existing() (known store.Operation, joins bool, err error) {
	known, joins, err = p.byKey()
	switch {
	case joins || err != nil:
	case p.r.Operation == api.Terminate: // to end an instance is possible at any time
		known, joins = p.terminating()
	case p.t.Instance.ProcessingSequence != 0:
		err = reconcile.InProgress(p.t)
	default:
		err = p.t.RequireConfirmed()
	}
	known.Joined = joins
	return known, joins, err
}

func (s *Service) post(t *tx.Tx, r api.OperationRequest, o *stack.Observation) (store.Operation, error) {
	p, err := s.posting(t, r, o)
	if err != nil {
		return store.Operation{}, err
	}
	if known, ok, err := p.existing(); ok || err != nil {
		return known, err
	}
	if err := p.supersede(); err != nil {
		return store.Operation{}, err
	}
	if err := p.prepare(); err != nil {
		return store.Operation{}, err
	}
	if err := p.check(); err != nil {
		return store.Operation{}, err
	}
	return p.begin()
}

// byKey is the operation that the idempotency key joins or returns.
func (p *posting) byKey() (store.Operation, bool, error) {
	i := slices.IndexFunc(p.history, func(o store.Operation) bool {
		return p.r.IdempotencyKey != "" && o.IdempotencyKey == p.r.IdempotencyKey
	})
	if i < 0 {
		return store.Operation{}, false, nil
	}
	known := p.history[i]
	if !sameKind(known.Request, p.r) || known.Phase != p.r.Phase || known.Request.AspectID != p.r.AspectID {
		return known, false, api.NewProblem(api.ProblemConflict, fmt.Sprintf("idempotencyKey %q was used for operation %s (%s) of this instance; use another key for %s",
			p.r.IdempotencyKey, known.ID, known.Request.Describe(), p.r.Describe()))
	}
	begins := known.State != api.Processing && (p.mustRepeat(known) || p.endFailed(known))
	return known, !begins || p.terminatedSince(known), nil
}

// endFailed says whether the operation is a START whose END has failed. Who then tries again
// calls for both, and what the START does may have to be done again: after an END,
// PersistentVolumes are registered that a START has withdrawn. The newest END of each kind is
// on record as long as a START of its kind.
func (p *posting) endFailed(start store.Operation) bool {
	for _, o := range p.history {
		switch {
		case o.Sequence <= start.Sequence:
			return false
		case o.Phase == api.PhaseEnd && sameKind(o.Request, start.Request):
			return start.Phase == api.PhaseStart && o.State == api.Failed
		}
	}
	return false
}

// terminatedSince says whether TERMINATE came after the operation. A request that comes
// again, late, must not instantiate again what was terminated. The newest TERMINATE is on
// record as long as the instance.
func (p *posting) terminatedSince(o store.Operation) bool {
	return slices.ContainsFunc(p.history, func(later store.Operation) bool {
		return later.Request.Operation == api.Terminate && later.Sequence > o.Sequence
	})
}

// terminating is the TERMINATE that another one joins: the same phase, until its
// deadline, if nothing has happened since.
func (p *posting) terminating() (store.Operation, bool) {
	if len(p.history) == 0 {
		return store.Operation{}, false
	}
	o := p.history[0]
	unchanged := p.t.Instance.DesiredVersion == cmp.Or(o.CreatedVersion, o.PreviousVersion) && o.Epoch == p.t.Store.Epoch()
	return o, o.Request.Operation == api.Terminate && o.Phase == p.r.Phase && o.State != api.Failed && unchanged && p.t.Now.Before(o.Deadline)
}

// mustRepeat reports whether an attempt must be made again: it failed, or the key names it
// and it succeeded in an earlier epoch, so that its effect may be lost with what came
// after the backup.
func (p *posting) mustRepeat(o store.Operation) bool {
	named := p.r.IdempotencyKey != "" && o.IdempotencyKey == p.r.IdempotencyKey
	return o.State == api.Failed || named && o.Epoch != p.t.Store.Epoch()
}

func sameKind(a, b api.OperationRequest) bool { return a.Operation == b.Operation && a.Type == b.Type }

// supersede ends what is not over: TERMINATE any other operation, every operation a START
// of another kind that awaits its END. What a START has put in force goes back before this
// operation builds on it.
func (p *posting) supersede() error {
	sequence := max(p.t.Instance.ProcessingSequence, p.t.Instance.AwaitingEndSequence) // one of them is 0
	if sequence == 0 {
		return nil
	}
	op, err := p.t.Operation(sequence)
	if err != nil || sameKind(op.Request, p.r) {
		return err
	}
	if p.r.Operation == api.Terminate {
		id := api.OperationID(p.t.Instance.ID, p.t.Instance.LastSequence+1)
		return p.s.Reconciler.Stop(p.t, &op, api.ProblemSuperseded, fmt.Sprintf("operation %s (%s) superseded it", id, p.r.Describe()))
	}
	return p.s.Reconciler.Stop(p.t, &op, api.ProblemInterrupted, fmt.Sprintf("%s came before its END", p.r.Describe()))
}

// prepare reads what the checks and the operation need.
func (p *posting) prepare() error {
	var err error
	if p.before, err = desired.InForce(p.t); err != nil {
		return err
	}
	if err := p.before.Valid(); err != nil && p.r.Operation != api.Terminate {
		return err
	}
	p.next = p.before.Desired
	switch {
	case p.r.Operation == api.Terminate && p.r.Phase == api.PhaseEnd:
		p.given = p.stack.Found
		p.next.Topology, p.next.StackID, p.next.StackName = nil, "", ""
	default:
		p.next.StackID, p.next.StackName = p.stack.ID(p.next)
		if p.given = p.stack.Topology(); p.given != nil {
			p.next.Topology = p.given
		}
	}
	p.base = p.baseVersion()
	if p.baseTopology, err = desired.TopologyAt(p.t, p.base); err != nil {
		return err
	}
	p.next.WithdrawPersistentVolumes = p.withdraws()
	p.next.Leaving = p.leaving()
	p.next.Force = p.r.Force && len(p.next.Leaving) > 0
	return nil
}

// baseVersion is the version in force after the last END that took effect. A retry
// of a failed END is measured like the first attempt.
func (p *posting) baseVersion() int64 {
	for _, o := range p.history {
		switch {
		case o.Phase != api.PhaseEnd:
		case o.StackFailed(), p.mustRepeat(o) && sameKind(o.Request, p.r):
			return o.BaseVersion
		case o.CreatedVersion != 0:
			return o.CreatedVersion
		default:
			return o.PreviousVersion
		}
	}
	return 0
}
