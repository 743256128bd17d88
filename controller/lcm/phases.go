package lcm

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// begin records the operation and does what its phase does.
func (p *posting) begin() (store.Operation, error) {
	p.inst.LastSequence++
	op := store.Operation{
		Operation: api.Operation{
			ID: operationName(p.inst.LastSequence), VnfInstanceID: p.inst.ID,
			Operation: p.r.Operation, Phase: p.r.Phase, Type: p.r.Type,
			State: api.Processing, StackID: p.next.StackID, IdempotencyKey: p.r.IdempotencyKey,
			StartedAt: p.now, Deadline: p.now.Add(time.Duration(p.r.DeadlineSeconds) * time.Second),
			Targets: []api.OperationTarget{}, Withheld: []api.Withheld{}, Warnings: []api.Fault{},
		},
		Request: p.r, PreviousVersion: p.inst.DesiredVersion, BaseVersion: p.base, Sequence: p.inst.LastSequence, Epoch: p.Store.Epoch(),
	}
	if p.r.StackID == "" && p.r.Operation == api.Terminate {
		op.StackID = p.before.StackID
	}
	p.report("operation begins", op)
	switch {
	case p.r.Phase == api.PhaseStart:
		return p.start(op)
	case p.stackProblem() != nil:
		return p.refuse(op)
	}
	return p.end(op)
}

// refuse fails an END whose stack is not complete: nothing of it is in force. A
// START that it superseded may have been taken back, which the nodes have to see.
func (p *posting) refuse(op store.Operation) (store.Operation, error) {
	op.Error = p.stackProblem()
	if err := p.finishOperation(&op, api.Failed); err != nil {
		return op, err
	}
	return op, p.settle()
}

// start puts what a START brought in force until its END comes. What it checks is
// checked, so it is over, but where PersistentVolumes have to be gone first.
func (p *posting) start(op store.Operation) (store.Operation, error) {
	if previous := p.awaited(); previous != nil && previous.MadeVersion == p.inst.DesiredVersion {
		op.MadeVersion, op.PreviousVersion = previous.MadeVersion, previous.PreviousVersion
	}
	made, err := p.force(p.next, op.ID)
	if err != nil {
		return op, err
	}
	if made != 0 {
		op.MadeVersion = made
	}
	e, err := p.reconcile()
	if err != nil {
		return op, err
	}
	op.Warnings = append(op.Warnings, p.warnings(e)...)
	p.inst.Awaiting = 0
	if !p.next.Withdraw || p.inst.Standing.Owner == "" {
		return op, p.started(&op)
	}
	p.inst.Processing = op.Sequence
	if err := p.saveOperation(op); err != nil {
		return op, err
	}
	if err := p.evaluate(nil); err != nil {
		return op, err
	}
	return p.operation(op.Sequence)
}

// started ends a START well. Where it has changed the desired state, or goes on with
// a withdrawal that another one began, its END is waited for.
func (u *unit) started(op *store.Operation) error {
	now, err := u.inForce()
	if err != nil {
		return err
	}
	if (op.MadeVersion != 0 || now.Withdraw) && endFollows(op.Request) {
		u.inst.Awaiting = op.Sequence
	}
	return u.finishOperation(op, api.Completed)
}

// endFollows: Tacker calls no END after SCALE_IN, so nobody waits for one.
func endFollows(r api.OperationRequest) bool { return r.Type != api.ScaleIn }

// awaited is the START whose END has not come, nil for none.
func (p *posting) awaited() *store.Operation {
	for i, o := range p.history {
		if o.Sequence == p.inst.Awaiting {
			return &p.history[i]
		}
	}
	return nil
}

// end puts what an END brought in force, retires the nodes that are gone and waits
// for the others.
func (p *posting) end(op store.Operation) (store.Operation, error) {
	var err error
	if op.MadeVersion, err = p.force(p.next, op.ID); err != nil {
		return op, err
	}
	p.inst.Awaiting = 0
	e, err := p.reconcile()
	if err != nil {
		return op, err
	}
	if err := p.retire(fmt.Sprintf("operation %s (%s) ended without it", op.ID, describe(p.r))); err != nil {
		return op, err
	}
	// What became of the formats of who is gone stands in the documents of those who
	// have the volumes now: the operation is not over before they have seen it.
	after, err := p.reconcile()
	if err != nil {
		return op, err
	}
	e.changed = append(e.changed, after.changed...)
	ids := p.targets(e)
	if op.Targets, op.Withheld, err = p.look(ids); err != nil {
		return op, err
	}
	bystanders, err := p.bystanders(e, ids)
	if err != nil {
		return op, err
	}
	op.Warnings = slices.Concat(op.Warnings, p.warnings(e), bystanders)
	p.inst.Processing = op.Sequence
	if err := p.saveOperation(op); err != nil {
		return op, err
	}
	if err := p.evaluate(nil); err != nil {
		return op, err
	}
	return p.operation(op.Sequence)
}
