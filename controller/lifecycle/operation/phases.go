package operation

import (
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// begin records the operation and does what its phase does.
func (p *postRequest) begin() (store.Operation, error) {
	p.t.Instance.LastSequence++
	op := store.Operation{
		Operation: api.Operation{
			ID: api.OperationID(p.t.Instance.ID, p.t.Instance.LastSequence), VnfInstanceID: p.t.Instance.ID, Sequence: p.t.Instance.LastSequence,
			Operation: p.r.Operation, Phase: p.r.Phase, Type: p.r.Type,
			State: api.Processing, StackID: p.next.StackID, IdempotencyKey: p.r.IdempotencyKey,
			StartedAt: p.t.Now, Deadline: p.t.Now.Add(time.Duration(p.r.DeadlineSeconds) * time.Second),
			Leaving: p.leavingMembers(), Force: p.r.Force,
			PersistentVolumes: p.healed.volumes, OldServerIsOffBy: p.healed.oldServerIsOffBy,
			Targets: []api.OperationTarget{}, Withheld: []api.Withheld{}, Warnings: []api.Fault{},
		},
		Request: p.r, PreviousVersion: p.t.Instance.DesiredVersion, BaseVersion: p.base, Epoch: p.t.Store.Epoch(),
		OldServerOff: p.healed.oldServerOff,
	}
	if p.r.StackID == "" && p.r.Operation == api.Terminate {
		op.StackID = p.before.StackID
	}
	p.s.Completion.LogAfter(p.t, api.EventOperationStarted, op)
	switch {
	case p.r.Phase == api.PhaseStart:
		return p.start(op)
	case p.stackProblem != nil:
		return p.refuse(op)
	}
	return p.end(op)
}

// refuse fails an END whose stack is not complete: nothing of it is in force. A
// START that it superseded may have been taken back, which the nodes have to see.
func (p *postRequest) refuse(op store.Operation) (store.Operation, error) {
	op.Error = p.stackProblem
	if err := p.s.Completion.Finish(p.t, &op, api.Failed); err != nil {
		return op, err
	}
	return op, p.s.Reconciler.ReconcileAndFinish(p.t)
}

// start puts what a START brought in force until its END comes. What it checks is
// checked, so it is over, unless something has to leave the cluster first.
func (p *postRequest) start(op store.Operation) (store.Operation, error) {
	if previous := p.history.awaited(p.t.Instance.AwaitingEndSequence); previous != nil && previous.CreatedVersion == p.t.Instance.DesiredVersion {
		op.CreatedVersion, op.PreviousVersion = previous.CreatedVersion, previous.PreviousVersion
	}
	made, err := desired.Activate(p.t, p.next, op.ID)
	if err != nil {
		return op, err
	}
	if made != 0 {
		op.CreatedVersion = made
	}
	if err := p.plan(&op); err != nil {
		return op, err
	}
	p.t.Instance.AwaitingEndSequence = 0
	if !p.next.Withdraws() || p.t.Instance.CarriedOver.Owner == "" {
		return op, p.s.Completion.FinishStart(p.t, &op)
	}
	p.t.Instance.ProcessingSequence = op.Sequence
	if err := p.t.SaveOperation(op); err != nil {
		return op, err
	}
	if err := p.s.Reconciler.Evaluate(p.t); err != nil {
		return op, err
	}
	return p.t.Operation(op.Sequence)
}

// plan plans what the START has put in force. TERMINATE needs no plan: if none can be made
// any more, the nodes keep their documents until its END.
func (p *postRequest) plan(op *store.Operation) error {
	if p.r.Operation == api.Terminate {
		_, err := p.s.Reconciler.ApplyUnlessOutdated(p.t)
		return err
	}
	e, err := p.s.Reconciler.Apply(p.t)
	if err != nil {
		return err
	}
	op.Warnings = append(op.Warnings, p.warnings(e)...)
	return nil
}

// end puts what an END brought in force, retires the nodes that are gone and waits
// for the others.
func (p *postRequest) end(op store.Operation) (store.Operation, error) {
	var err error
	if op.CreatedVersion, err = desired.Activate(p.t, p.next, op.ID); err != nil {
		return op, err
	}
	if err := p.letMount(); err != nil {
		return op, err
	}
	p.t.Instance.AwaitingEndSequence = 0
	if upgrades(p.r) {
		p.t.Instance.CarriedOver.Paused = ""
	}
	e, err := p.s.Reconciler.Apply(p.t)
	if err != nil {
		return op, err
	}
	if err := p.s.Reconciler.Retire(p.t, fmt.Sprintf("operation %s (%s) ended without it", op.ID, p.r.Describe())); err != nil {
		return op, err
	}
	// The state of the formats of nodes that are gone is in the documents of those that
	// have the volumes now: the operation is not over before they have seen it.
	after, err := p.s.Reconciler.Apply(p.t)
	if err != nil {
		return op, err
	}
	e.Changed = append(e.Changed, after.Changed...)
	ids := p.targets(e)
	if op.Targets, op.Withheld, err = completion.Targets(p.t, ids); err != nil {
		return op, err
	}
	bystanders, err := p.bystanders(e, ids)
	if err != nil {
		return op, err
	}
	op.Warnings = append(append(op.Warnings, p.warnings(e)...), bystanders...)
	if op.Error = p.unresolved(op.Withheld); op.Error != nil {
		return op, p.s.Completion.Finish(p.t, &op, api.Failed)
	}
	p.t.Instance.ProcessingSequence = op.Sequence
	if err := p.t.SaveOperation(op); err != nil {
		return op, err
	}
	if err := p.s.Reconciler.Evaluate(p.t); err != nil {
		return op, err
	}
	return p.t.Operation(op.Sequence)
}
