package lifecycletest

import (
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Request is a request for an operation.
func Request(o api.OperationType, phase api.OperationPhase) api.OperationRequest {
	return api.OperationRequest{Operation: o, Phase: phase}
}

// Scale is a request to scale the workers, with the topology after it.
func Scale(kind api.ScaleType, phase api.OperationPhase, t *api.Topology) api.OperationRequest {
	return api.OperationRequest{Operation: api.Scale, Phase: phase, Type: kind, AspectID: "worker_instance", Topology: t}
}

// Heal is a request to heal the servers, the entire VNF for none.
func Heal(phase api.OperationPhase, t *api.Topology, servers ...string) api.OperationRequest {
	r := api.OperationRequest{Operation: api.Heal, Phase: phase, Topology: t}
	for _, id := range servers {
		r.VnfcInstanceIds = append(r.VnfcInstanceIds, "vnfc-"+id)
	}
	return r
}

// Forced is the request with force.
func Forced(r api.OperationRequest) api.OperationRequest {
	r.Force = true
	return r
}

// ScaleInStart is a SCALE_IN START of these VNFCs.
func ScaleInStart(vnfcs ...string) api.OperationRequest {
	r := Scale(api.ScaleIn, api.PhaseStart, nil)
	r.VnfcInstanceIds = vnfcs
	return r
}

// ShrinkingStart is a START whose topology lacks the worker: it changes the desired state.
func ShrinkingStart() api.OperationRequest {
	return Heal(api.PhaseStart, TopologyOf(Server(StorageServer, "storage"), Server(MasterServer, "master")), StorageServer)
}

// Post begins an operation.
func (w *World) Post(r api.OperationRequest) api.Operation {
	w.Helper()
	op, err := w.Lifecycle.Operations.PostOperation(w.Ctx, InstanceID, r)
	w.Must(err)
	return op
}

// Operation is the operation as it is now.
func (w *World) Operation(id string) api.Operation {
	w.Helper()
	op, err := w.Lifecycle.Operations.GetOperation(w.Ctx, InstanceID, SequenceOf(id))
	w.Must(err)
	return op
}

// Operations are all operations of the instance.
func (w *World) Operations() []api.Operation {
	w.Helper()
	list, err := w.Lifecycle.Operations.ListOperations(w.Ctx, InstanceID)
	w.Must(err)
	return list
}

// SequenceOf is the sequence in the id of an operation.
func SequenceOf(id string) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(id, InstanceID+"/"), 10, 64)
	return n
}

// WantState wants the operation to be in this state, and returns it.
func (w *World) WantState(op api.Operation, state api.OperationState) api.Operation {
	w.Helper()
	got := w.Operation(op.ID)
	if got.State != state {
		w.Fatalf("operation %s (%s %s) is %+v, want %s", op.ID, op.Operation, op.Phase, got, state)
	}
	return got
}

// outcome is that of the operation now, with the type of its problem.
func (w *World) outcome(op api.Operation) string {
	w.Helper()
	op = w.Operation(op.ID)
	if op.Error == nil {
		return string(op.State)
	}
	return string(op.State) + " " + strings.TrimPrefix(op.Error.Type, api.ProblemPrefix)
}

// WantOutcome wants the operation to have this state, and after it the type of its problem if
// it has one. when is for the failure's text.
func (w *World) WantOutcome(op api.Operation, want, when string) {
	w.Helper()
	if got := w.outcome(op); got != want {
		w.Fatalf("%s the operation is %s, want %s: %+v", when, got, want, w.Operation(op.ID))
	}
}

// The outcomes that WantOutcome is mostly given.
const (
	Processing    = "PROCESSING"
	Completed     = "COMPLETED"
	TargetsFailed = "FAILED targets-failed"
)

// Grace is for how long nothing changes before an END fails early.
var Grace = time.Duration(config.Default().FailureGraceSeconds) * time.Second

// Wait lets time pass, and the controller notice what is over.
func (w *World) Wait(d time.Duration) {
	w.Helper()
	w.Clock.Advance(d)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
}

// Operator is who cancels in these tests.
const Operator = "token night shift"

// Cancel cancels the operation in the name of Operator.
func (w *World) Cancel(op api.Operation) (api.Operation, error) {
	w.Helper()
	return w.Lifecycle.Operations.CancelOperation(w.Ctx, InstanceID, op.Sequence, Operator)
}

// MustCancel cancels the operation, and wants it to fail with a problem that says these
// things.
func (w *World) MustCancel(op api.Operation, says ...string) {
	w.Helper()
	answer, err := w.Cancel(op)
	w.Must(err)
	for _, got := range []api.Operation{answer, w.Operation(op.ID)} {
		if got.ID != op.ID || got.State != api.Failed || got.FinishedAt == nil || got.CancelledBy != Operator {
			w.Errorf("the operation is %+v, want it FAILED, cancelled by %s", got, Operator)
		}
		w.WantRefused(got.Error, api.ProblemCancelled, append(says, Operator+" cancelled it")...)
	}
}
