package lcm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// posting is a request for an operation at work.
type posting struct {
	*unit
	r api.OperationRequest
	// given is the topology that came with the request, nil for none.
	given *api.Topology
	// before is the desired state in force, next the one that the request asks for.
	before *desired
	next   store.Desired
	// history is the operations of the instance, newest first.
	history []store.Operation
	// base is what the operation is measured against; see store.Operation.
	base         int64
	baseTopology *api.Topology
}

func (u *unit) post(r api.OperationRequest, given *api.Topology) (store.Operation, error) {
	history, err := u.tx.Operations().Prefix(store.InstancePrefix(u.inst.ID))
	if err != nil {
		return store.Operation{}, err
	}
	slices.Reverse(history)
	p := &posting{unit: u, r: r, given: given, history: history}
	if known, ok, err := p.byKey(); ok || err != nil {
		return known, err
	}
	if u.inst.Processing != 0 {
		return store.Operation{}, u.inProgress()
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
		return known, false, conflict("idempotencyKey %q was used for operation %s (%s) of this instance; use another key for %s",
			p.r.IdempotencyKey, known.ID, describe(known.Request), describe(p.r))
	}
	return known, known.State != api.Failed, nil
}

func sameKind(a, b api.OperationRequest) bool { return a.Operation == b.Operation && a.Type == b.Type }

// supersede ends the wait for the END of another operation: its desired state goes
// back before this one builds on it.
func (p *posting) supersede() error {
	if p.inst.Awaiting == 0 {
		return nil
	}
	start, err := p.operation(p.inst.Awaiting)
	if err != nil || sameKind(start.Request, p.r) {
		return err
	}
	return p.interrupt(start, fmt.Sprintf("%s came before its END", describe(p.r)))
}

// prepare reads what the checks and the operation need.
func (p *posting) prepare() error {
	var err error
	if p.before, err = p.desired(); err != nil {
		return err
	}
	if err := p.before.valid(); err != nil {
		return err
	}
	p.next = p.before.Desired
	switch {
	case p.r.Operation == api.Terminate && p.r.Phase == api.PhaseEnd:
		p.next.Topology, p.next.StackID = nil, ""
	default:
		if p.given != nil {
			p.next.Topology = p.given
		}
		p.next.StackID = firstText(p.r.StackID, stackOf(p.given), p.next.StackID)
	}
	p.base = p.baseVersion()
	p.baseTopology, err = p.topologyAt(p.base)
	return err
}

func stackOf(t *api.Topology) string {
	if t == nil {
		return ""
	}
	return t.StackID
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// baseVersion is the version in force after the last END that took effect. A retry
// of a failed END is measured like the first attempt.
func (p *posting) baseVersion() int64 {
	for _, o := range p.history {
		switch {
		case o.Phase != api.PhaseEnd:
		case stackFailed(o), o.State == api.Failed && sameKind(o.Request, p.r):
			return o.BaseVersion
		case o.MadeVersion != 0:
			return o.MadeVersion
		default:
			return o.PreviousVersion
		}
	}
	return 0
}

func stackFailed(o store.Operation) bool {
	return o.Error != nil && o.Error.Type == api.ProblemStackFailed
}

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
		Request: p.r, PreviousVersion: p.inst.DesiredVersion, BaseVersion: p.base, Sequence: p.inst.LastSequence,
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
// checked, so it is over.
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
	if op.MadeVersion != 0 && p.endFollows() {
		p.inst.Awaiting = op.Sequence
	}
	return op, p.finishOperation(&op, api.Completed)
}

// endFollows: Tacker calls no END after SCALE_IN, so nobody waits for one.
func (p *posting) endFollows() bool { return p.r.Type != api.ScaleIn }

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
	ids := p.targets(e)
	if op.Targets, op.Withheld, err = p.look(ids); err != nil {
		return op, err
	}
	bystanders, err := p.bystanders(e, ids)
	if err != nil {
		return op, err
	}
	op.Warnings = slices.Concat(op.Warnings, p.warnings(e), p.missingRoles(e), bystanders)
	p.inst.Processing = op.Sequence
	if err := p.saveOperation(op); err != nil {
		return op, err
	}
	if err := p.evaluate(nil); err != nil {
		return op, err
	}
	return p.operation(op.Sequence)
}

// stackProblem is why an END cannot succeed: the stack is not what it should be.
func (p *posting) stackProblem() *api.Problem {
	if p.given == nil || p.given.StackStatus == "" {
		return nil
	}
	status := p.given.StackStatus
	gone := strings.HasPrefix(status, "DELETE_") && p.r.Operation != api.Terminate
	if strings.HasSuffix(status, "_COMPLETE") && !gone {
		return nil
	}
	reason := firstText(p.given.StackStatusReason, "Heat gave no reason")
	return api.NewProblem(api.ProblemStackFailed, fmt.Sprintf(
		"stack %s is %s: %s; mend the stack and post the END again", firstText(p.next.StackID, p.before.StackID, "of this instance"), status, reason))
}

// report logs an operation once the transaction is on disk.
func (u *unit) report(what string, op store.Operation) {
	log := u.Log
	u.tx.OnCommit(func() {
		log.Info(what, "instance", op.VnfInstanceID, "operation", op.ID, "request", describe(op.Request), "state", op.State, "error", problemText(op.Error))
	})
}

func problemText(p *api.Problem) string {
	if p == nil {
		return ""
	}
	return p.Error()
}
