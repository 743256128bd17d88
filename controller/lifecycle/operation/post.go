package operation

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// post begins the operation that the request asks for, or returns the one that it attaches to.
func (s *Service) post(ctx context.Context, t *tx.Tx, r api.OperationRequest, o *stack.Observation) (store.Operation, error) {
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
	p, err := s.load(ctx, t, h, o) // not before: what is superseded may go back to another desired state
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
