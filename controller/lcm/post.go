package lcm

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// posting is a request for an operation at work.
type posting struct {
	*unit
	r api.OperationRequest
	// stack is what the request or Heat says of it, given what of that is to be in force,
	// nil for nothing.
	stack *look
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

func (u *unit) posting(r api.OperationRequest, l *look) (*posting, error) {
	history, err := u.history()
	return &posting{unit: u, r: r, stack: l, history: history}, err
}

// history is the operations of the instance, newest first.
func (u *unit) history() ([]store.Operation, error) {
	history, err := u.tx.Operations().Prefix(store.InstancePrefix(u.inst.ID))
	slices.Reverse(history)
	return history, err
}

// admitted is the operation that the request joins or asks for again, with true, or
// why there can be none now.
func (p *posting) admitted() (store.Operation, bool, error) {
	if known, ok, err := p.byKey(); ok || err != nil {
		return known, ok, err
	}
	if p.inst.Processing != 0 {
		return store.Operation{}, false, p.inProgress()
	}
	return store.Operation{}, false, p.mayOperate(p.r)
}

func (u *unit) post(r api.OperationRequest, l *look) (store.Operation, error) {
	p, err := u.posting(r, l)
	if err != nil {
		return store.Operation{}, err
	}
	if known, ok, err := p.admitted(); ok || err != nil {
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
		return known, false, conflict("idempotencyKey %q was used for operation %s (%s) of this instance; use another key for %s",
			p.r.IdempotencyKey, known.ID, describe(known.Request), describe(p.r))
	}
	return known, known.State == api.Processing || !p.unproven(known), nil
}

// unproven says whether an attempt has to be made again: it failed, or it is the
// one that the key names and succeeded in an earlier life of the state, of which
// nobody knows what became after the backup.
func (p *posting) unproven(o store.Operation) bool {
	named := p.r.IdempotencyKey != "" && o.IdempotencyKey == p.r.IdempotencyKey
	return o.State == api.Failed || named && o.Epoch != p.Store.Epoch()
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
		p.given = p.stack.found
		p.next.Topology, p.next.StackID, p.next.StackName = nil, "", ""
	default:
		p.next.StackID, p.next.StackName = p.stack.stackID(p.next)
		if p.given = p.stack.topology(); p.given != nil {
			p.next.Topology = p.given
		}
	}
	p.base = p.baseVersion()
	if p.baseTopology, err = p.topologyAt(p.base); err != nil {
		return err
	}
	p.next.Withdraw = p.withdraws()
	return nil
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
		case stackFailed(o), p.unproven(o) && sameKind(o.Request, p.r):
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
