package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

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
	// stackProblem is why an END cannot succeed, nil if it can.
	stackProblem *api.Problem
	// healed is what becomes of the PersistentVolumes.
	healed healed
}

// load reads what the request needs. Nothing is set later.
func (s *Service) load(ctx context.Context, t *tx.Tx, h history, o *stack.Observation) (*postRequest, error) {
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
	p.healed = p.heals(ctx)
	p.next.WithdrawPersistentVolumes = p.withdraws()
	p.next.Leaving = p.leaving()
	p.next.Force = p.r.Force && len(p.next.Leaving) > 0
	p.stackProblem = p.checkStack()
	return p, nil
}

// checkRequest is what is wrong with a request whatever the instance is.
func checkRequest(r api.OperationRequest) fault.List {
	var list fault.List
	wrong := func(key, format string, args ...any) {
		list = append(list, fault.Root.Key(key).Fault(fmt.Sprintf(format, args...)))
	}
	if !r.Operation.Valid() {
		wrong("operation", "is %q; expected INSTANTIATE, SCALE, HEAL, TERMINATE, CHANGE_EXT_CONN, MODIFY_INFO or CHANGE_VNFPKG", r.Operation)
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
	if r.Force && (!leaving || r.Phase != api.PhaseStart) {
		wrong("force", "is true; it belongs to the START of HEAL and SCALE_IN, whose servers leave the cluster; leave it out of %s", r.Describe())
	}
	if r.Operation != api.Heal {
		for key, given := range map[string]bool{"persistentVolumes": r.PersistentVolumes != "", "oldServerIsOff": r.OldServerIsOff} {
			if given {
				wrong(key, "belongs to HEAL; leave it out of %s", r.Describe())
			}
		}
	} else if r.PersistentVolumes != "" && !r.PersistentVolumes.Valid() {
		wrong("persistentVolumes", "is %q; expected keep or withdraw", r.PersistentVolumes)
	}
	if len(r.ConnectionPointNames) > 0 && r.Operation != api.ChangeExtConn {
		wrong("connectionPointNames", "belongs to CHANGE_EXT_CONN; leave it out of %s", r.Operation)
	}
	if r.Operation == api.Scale && r.Type == api.ScaleIn && r.Phase == api.PhaseStart && len(r.VnfcInstanceIds) == 0 {
		wrong("vnfcInstanceIds", "is empty; SCALE_IN START names the VNFC instances that leave")
	}
	slices.SortFunc(list, func(a, b fault.Fault) int { return cmp.Compare(a.Pointer, b.Pointer) })
	return list
}
