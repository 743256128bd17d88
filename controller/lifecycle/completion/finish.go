package completion

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Finish records the end of an operation.
func (e *Evaluator) Finish(t *tx.Tx, op *store.Operation, state api.OperationState) error {
	op.State, op.Epoch = state, t.Store.Epoch()
	now := t.Now
	op.FinishedAt = &now
	if t.Instance.ProcessingSequence == op.Sequence {
		t.Instance.ProcessingSequence = 0
	}
	if state == api.Completed && op.Phase == api.PhaseEnd {
		switch op.Operation.Operation {
		case api.Instantiate:
			t.Instance.State, t.Instance.UpdatedAt = api.Instantiated, t.Now
		case api.Terminate:
			t.Instance.State, t.Instance.UpdatedAt = api.NotInstantiated, t.Now
			// All of it is of a cluster that is no more.
			t.Instance.CarriedOver, t.Instance.ClusterSecret, t.Instance.ClusterFacts = store.CarriedOver{}, nil, nil
		}
	}
	e.LogAfter(t, api.EventOperationFinished, *op)
	return t.SaveOperation(*op)
}

// FinishStart ends a START successfully. If it changed the desired state, or continues
// a withdrawal that another one began, its END is awaited.
func (e *Evaluator) FinishStart(t *tx.Tx, op *store.Operation) error {
	now, err := desired.Record(t)
	if err != nil {
		return err
	}
	if (op.CreatedVersion != 0 || now.Withdraws()) && endFollows(op.Request) {
		t.Instance.AwaitingEndSequence = op.Sequence
	}
	return e.Finish(t, op, api.Completed)
}

// endFollows: Tacker calls no END after SCALE_IN, so none is awaited.
func endFollows(request api.OperationRequest) bool { return request.Type != api.ScaleIn }

// Stop fails an operation that is in progress, or a START that awaits its END. An END
// stops waiting and nothing else: its desired state stays in force, and identities that
// it has revoked stay revoked. A START is taken back: the desired state goes back to what
// it was, unless it was changed since. The caller plans afterwards.
func (e *Evaluator) Stop(t *tx.Tx, op *store.Operation, problemType, why string) error {
	left := "these nodes were not ready: " + progress.Waiting(op.Targets)
	if op.Phase == api.PhaseStart {
		var err error
		if left, err = goBack(t, *op); err != nil {
			return err
		}
	}
	if t.Instance.AwaitingEndSequence == op.Sequence {
		t.Instance.AwaitingEndSequence = 0
	}
	op.Error = api.NewProblem(problemType, fmt.Sprintf("%s; %s", why, left))
	return e.Finish(t, op, api.Failed)
}

// goBack takes back what a START put in force, and says what is in force now. If the
// desired state was changed since, that stays; but PersistentVolumes are not withdrawn
// any more, whichever START has begun it.
func goBack(t *tx.Tx, start store.Operation) (kept string, err error) {
	kept = "a newer version of the desired state is in force and stays"
	if t.Instance.DesiredVersion == start.CreatedVersion {
		t.Instance.DesiredVersion, t.Instance.UpdatedAt = start.PreviousVersion, t.Now
		kept = "the previous desired state is in force again"
	}
	now, err := desired.Record(t)
	if err == nil && now.Withdraws() {
		_, err = desired.Activate(t, now.WithoutWithdrawal(), start.ID)
	}
	return kept, err
}

// LogAfter logs an operation once the transaction is on disk.
func (e *Evaluator) LogAfter(t *tx.Tx, event string, op store.Operation) {
	t.OnCommit(func() {
		why := ""
		if op.Error != nil {
			why = op.Error.Error()
		}
		e.Log.Info("operation changed state", "event", event, "instance", op.VnfInstanceID, "operation", op.ID, "request", op.Request.Describe(), "state", op.State, "error", why)
	})
}
