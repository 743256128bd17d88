package operation

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/desired"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/tx"
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
func (p *posting) existing() (store.Operation, bool, error) {
	if known, ok, err := p.byKey(); ok || err != nil {
		return known, ok, err
	}
	if p.t.Instance.ProcessingSequence != 0 {
		return store.Operation{}, false, reconcile.InProgress(p.t)
	}
	if p.r.Operation == api.Terminate { // to end an instance is possible at any time
		return store.Operation{}, false, nil
	}
	return store.Operation{}, false, p.t.RequireConfirmed()
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
	return known, known.State == api.Processing || !p.mustRepeat(known), nil
}

// mustRepeat reports whether an attempt must be made again: it failed, or the key names it
// and it succeeded in an earlier epoch, so that its effect may be lost with what came
// after the backup.
func (p *posting) mustRepeat(o store.Operation) bool {
	named := p.r.IdempotencyKey != "" && o.IdempotencyKey == p.r.IdempotencyKey
	return o.State == api.Failed || named && o.Epoch != p.t.Store.Epoch()
}

func sameKind(a, b api.OperationRequest) bool { return a.Operation == b.Operation && a.Type == b.Type }

// supersede ends the wait for the END of another operation: its desired state goes
// back before this one builds on it.
func (p *posting) supersede() error {
	if p.t.Instance.AwaitingEndSequence == 0 {
		return nil
	}
	start, err := p.t.Operation(p.t.Instance.AwaitingEndSequence)
	if err != nil || sameKind(start.Request, p.r) {
		return err
	}
	return p.s.Reconciler.Interrupt(p.t, start, fmt.Sprintf("%s came before its END", p.r.Describe()))
}

// prepare reads what the checks and the operation need.
func (p *posting) prepare() error {
	var err error
	if p.before, err = desired.InForce(p.t); err != nil {
		return err
	}
	if err := p.before.Valid(); err != nil {
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
