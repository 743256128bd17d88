package instance

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// boundVolumes are PersistentVolumes that a claim is bound to, and where the desired state that was
// in force points them. Kubernetes does not allow to point them elsewhere.
type boundVolumes struct {
	bound []api.BoundPersistentVolume
	now   []plan.PersistentVolume
}

// held is what the masters among the nodes have reported as bound.
func (s *Service) held(t *tx.Tx, nodes []plan.Node) (h boundVolumes, err error) {
	if h.bound, err = reconcile.BoundVolumes(t, nodes); err != nil || h.bound == nil {
		return h, err
	}
	h.now, err = s.persistentVolumes(t)
	return h, err
}

// persistentVolumes is what the desired state in force registers.
func (s *Service) persistentVolumes(t *tx.Tx) ([]plan.PersistentVolume, error) {
	d, err := desired.InForce(t)
	if err != nil || d.Params == nil {
		return nil, err
	}
	out, _, err := s.Reconciler.Plan(t, d)
	return out.PersistentVolumes, err
}

// keepsBound refuses the desired state that the PUT has put in force, and the transaction with
// it, if it points PersistentVolumes elsewhere that are held: the nodes could only report
// that it cannot be.
func (p *putRequest) keepsBound(t *tx.Tx, h boundVolumes) error {
	if h.bound == nil {
		return nil
	}
	after, err := p.s.persistentVolumes(t)
	if err != nil {
		return err
	}
	var faults fault.List
	for _, b := range h.bound {
		next, now := reconcile.Find(after, b.Name), reconcile.Find(h.now, b.Name)
		switch {
		case next == nil, reconcile.SameServer(next.Server, b.Server):
		case now != nil && now.Server == next.Server: // it is not this PUT that changes it
		default:
			faults = append(faults, next.At.Fault(fmt.Sprintf(
				"would point PersistentVolume %s to %s; it is Bound and points to %s", b.Name, next.Server, b.Server)))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	problem := api.NewProblem(api.ProblemVolumesInUse, "nothing was changed; delete the claims first, "+
		"or give the new address in the END of CHANGE_EXT_CONN or HEAL, whose START withdraws the PersistentVolumes")
	problem.InvalidParams = p.placed(faults)
	return problem
}
