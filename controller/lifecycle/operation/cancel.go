package operation

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// CancelOperation ends an operation before its deadline, and keeps who asked for it. An
// END stops waiting, and pauses an upgrade of Kubernetes; a START is taken back, also one that
// awaits its END. TERMINATE, and an operation that is over, is a conflict.
func (s *Service) CancelOperation(ctx context.Context, instanceID string, sequence int64, who string) (api.Operation, error) {
	var op store.Operation
	err := s.Runner.Update(ctx, instanceID, func(t *tx.Tx) (err error) {
		if op, err = s.onRecord(t, sequence); err != nil {
			return err
		}
		if err := checkCancel(t, op); err != nil {
			return err
		}
		op.CancelledBy = who
		if err := s.Completion.Stop(t, &op, api.ProblemCancelled, who+" cancelled it"); err != nil {
			return err
		}
		if err := pauseUpgrade(t, op); err != nil {
			return err
		}
		op.VnfInstanceName = t.Instance.Name
		return s.Reconciler.ReconcileAndFinish(t)
	})
	if err == nil {
		s.Accepted(instanceID)
	}
	return op.Operation, err
}

// upgrades reports whether the request is the END of an operation that brings a cluster to another
// version of Kubernetes.
func upgrades(r api.OperationRequest) bool {
	return r.Phase == api.PhaseEnd && (r.Operation == api.ModifyInfo || r.Operation == api.ChangeVnfPkg)
}

// pauseUpgrade lets no further member be told the version of Kubernetes that is desired once the
// operation that waits for it was cancelled. The plan forgets it if no member is behind.
func pauseUpgrade(t *tx.Tx, op store.Operation) error {
	d, err := desired.InForce(t)
	if err != nil || !upgrades(op.Request) || d.Params == nil || d.Params.Cluster == nil || d.Params.Cluster.Kubernetes == nil {
		return err
	}
	t.Instance.CarriedOver.Paused = d.Params.Cluster.Kubernetes.Version
	return nil
}

// checkCancel refuses what cannot be cancelled.
func checkCancel(t *tx.Tx, op store.Operation) error {
	switch {
	case op.Request.Operation == api.Terminate:
		return api.NewProblem(api.ProblemConflict, fmt.Sprintf("operation %s is %s, and TERMINATE cannot be cancelled", op.ID, op.Request.Describe()))
	case op.Sequence != t.Instance.ProcessingSequence && op.Sequence != t.Instance.AwaitingEndSequence:
		return api.NewProblem(api.ProblemConflict, fmt.Sprintf("operation %s (%s) is over: it is %s; only an operation in progress, "+
			"or a START that awaits its END, can be cancelled", op.ID, op.Request.Describe(), op.State))
	}
	return nil
}
