package operation

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// post begins the operation that the request asks for, or returns the one that it attaches to.
func (s *Service) post(t *tx.Tx, r api.OperationRequest, o *stack.Observation) (store.Operation, error) {
	h, err := readHistory(t, r)
	if err != nil {
		return store.Operation{}, err
	}
	if known, attached, err := attach(t, h); attached || err != nil {
		return known, err
	}
	if err := s.supersede(t, r); err != nil {
		return store.Operation{}, err
	}
	p, err := s.load(t, h, o) // not before: what is superseded may go back to another desired state
	if err != nil {
		return store.Operation{}, err
	}
	if err := p.check(); err != nil {
		return store.Operation{}, err
	}
	return p.begin()
}

// attach is the operation that the request attaches to or asks for again, with true; or the
// reason why no operation can begin now.
func attach(t *tx.Tx, h history) (known store.Operation, attached bool, err error) {
	known, attached, err = h.byKey()
	switch {
	case attached || err != nil:
	case h.request.Operation == api.Terminate: // to end an instance is possible at any time
		known, attached = h.terminating(t)
	case t.Instance.ProcessingSequence != 0:
		err = reconcile.InProgress(t)
	default:
		err = t.RequireConfirmed()
	}
	known.Joined = attached
	return known, attached, err
}

// supersede ends what is not over: TERMINATE any other operation, every operation a START
// of another kind that awaits its END. What a START has put in force goes back before this
// operation builds on it.
func (s *Service) supersede(t *tx.Tx, r api.OperationRequest) error {
	sequence := max(t.Instance.ProcessingSequence, t.Instance.AwaitingEndSequence) // one of them is 0
	if sequence == 0 {
		return nil
	}
	op, err := t.Operation(sequence)
	if err != nil || sameKind(op.Request, r) {
		return err
	}
	if r.Operation == api.Terminate {
		id := api.OperationID(t.Instance.ID, t.Instance.LastSequence+1)
		return s.Completion.Stop(t, &op, api.ProblemSuperseded, fmt.Sprintf("operation %s (%s) superseded it", id, r.Describe()))
	}
	return s.Completion.Stop(t, &op, api.ProblemInterrupted, fmt.Sprintf("%s came before its END", r.Describe()))
}

// postRequest is a request for an operation, in one transaction, with all that its checks and
// its operation need.
type postRequest struct {
	s       *Service
	t       *tx.Tx
	r       api.OperationRequest
	history history
	// stack is what the request or Heat says of it, given what of that is to be in force,
	// nil for nothing.
	stack *stack.Observation
	given *api.Topology
	// before is the desired state in force.
	before *desired.State
	// base is what the operation is measured against; see store.Operation.
	base         int64
	baseTopology *api.Topology
	// known is what the request may name.
	known *known
	// next is the desired state that the request asks for.
	next store.Desired
}

// load reads what the request needs. Nothing is set later.
func (s *Service) load(t *tx.Tx, h history, o *stack.Observation) (*postRequest, error) {
	p := &postRequest{s: s, t: t, r: h.request, history: h, stack: o, base: h.baseVersion()}
	var err error
	if p.before, err = desired.InForce(t); err != nil {
		return nil, err
	}
	if err := p.before.Valid(); err != nil && p.r.Operation != api.Terminate {
		return nil, err
	}
	p.next = p.before.Desired
	switch {
	case p.r.Operation == api.Terminate && p.r.Phase == api.PhaseEnd:
		p.given = o.Found
		p.next.Topology, p.next.StackID, p.next.StackName = nil, "", ""
	default:
		p.next.StackID, p.next.StackName = o.ID(p.next)
		if p.given = o.Topology(); p.given != nil {
			p.next.Topology = p.given
		}
	}
	if p.baseTopology, err = desired.TopologyAt(t, p.base); err != nil {
		return nil, err
	}
	p.known = p.knownServers()
	p.next.WithdrawPersistentVolumes = p.withdraws()
	p.next.Leaving = p.leaving()
	p.next.Force = p.r.Force && len(p.next.Leaving) > 0
	return p, nil
}
