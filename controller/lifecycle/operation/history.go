package operation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// history is what a request finds: the operations of its instance, newest first, as they were
// before it changes any. It answers what the request means after them.
type history struct {
	request    api.OperationRequest
	operations []store.Operation
	epoch      int64
}

func readHistory(t *tx.Tx, r api.OperationRequest) (history, error) {
	operations, err := t.History()
	return history{request: r, operations: operations, epoch: t.Store.Epoch()}, err
}

// byKey is the operation that the idempotency key joins or returns.
func (h history) byKey() (store.Operation, bool, error) {
	i := slices.IndexFunc(h.operations, func(o store.Operation) bool {
		return h.request.IdempotencyKey != "" && o.IdempotencyKey == h.request.IdempotencyKey
	})
	if i < 0 {
		return store.Operation{}, false, nil
	}
	known := h.operations[i]
	if !sameKind(known.Request, h.request) || known.Phase != h.request.Phase || known.Request.AspectID != h.request.AspectID {
		return known, false, api.NewProblem(api.ProblemConflict, fmt.Sprintf("idempotencyKey %q was used for operation %s (%s) of this instance; use another key for %s",
			h.request.IdempotencyKey, known.ID, known.Request.Describe(), h.request.Describe()))
	}
	begins := known.State != api.Processing && (h.mustRepeat(known) || h.endFailed(known))
	return known, !begins || h.terminatedSince(known), nil
}

// endFailed says whether the operation is a START whose END has failed. Who then tries again
// calls for both, and what the START does may have to be done again: after an END,
// PersistentVolumes are registered that a START has withdrawn. The newest END of each kind is
// on record as long as a START of its kind.
func (h history) endFailed(start store.Operation) bool {
	for _, o := range h.operations {
		switch {
		case o.Sequence <= start.Sequence:
			return false
		case o.Phase == api.PhaseEnd && sameKind(o.Request, start.Request):
			return start.Phase == api.PhaseStart && o.State == api.Failed
		}
	}
	return false
}

// terminatedSince says whether TERMINATE came after the operation. A request that comes
// again, late, must not instantiate again what was terminated. The newest TERMINATE is on
// record as long as the instance.
func (h history) terminatedSince(o store.Operation) bool {
	return slices.ContainsFunc(h.operations, func(later store.Operation) bool {
		return later.Request.Operation == api.Terminate && later.Sequence > o.Sequence
	})
}

// terminating is the TERMINATE that another one joins: the same phase, until its
// deadline, if nothing has happened since.
func (h history) terminating(t *tx.Tx) (store.Operation, bool) {
	if len(h.operations) == 0 {
		return store.Operation{}, false
	}
	o := h.operations[0]
	unchanged := t.Instance.DesiredVersion == cmp.Or(o.CreatedVersion, o.PreviousVersion) && o.Epoch == h.epoch
	return o, o.Request.Operation == api.Terminate && o.Phase == h.request.Phase && o.State != api.Failed && unchanged && t.Now.Before(o.Deadline)
}

// mustRepeat reports whether an attempt must be made again: it failed, or the key names it
// and it succeeded in an earlier epoch, so that its effect may be lost with what came
// after the backup.
func (h history) mustRepeat(o store.Operation) bool {
	named := h.request.IdempotencyKey != "" && o.IdempotencyKey == h.request.IdempotencyKey
	return o.State == api.Failed || named && o.Epoch != h.epoch
}

func sameKind(a, b api.OperationRequest) bool { return a.Operation == b.Operation && a.Type == b.Type }

// baseVersion is the version in force after the last END that took effect. A retry
// of a failed END is measured like the first attempt.
func (h history) baseVersion() int64 {
	for _, o := range h.operations {
		switch {
		case o.Phase != api.PhaseEnd:
		case o.StackFailed(), h.mustRepeat(o) && sameKind(o.Request, h.request):
			return o.BaseVersion
		case o.CreatedVersion != 0:
			return o.CreatedVersion
		default:
			return o.PreviousVersion
		}
	}
	return 0
}

// leftByFailure are the targets of the attempt that failed, if this is a retry.
func (h history) leftByFailure() []string {
	for _, o := range h.operations {
		if o.Phase != api.PhaseEnd || o.StackFailed() {
			continue
		}
		if h.mustRepeat(o) && sameKind(o.Request, h.request) {
			return completion.TargetIDs(o.Targets)
		}
		return nil
	}
	return nil
}

// awaited is the START of this sequence, whose END has not come, nil for none.
func (h history) awaited(sequence int64) *store.Operation {
	for i, o := range h.operations {
		if o.Sequence == sequence {
			return &h.operations[i]
		}
	}
	return nil
}

// needsFiles: a START wants all files, and so does an END that no START prepared.
// TERMINATE uses none.
func (h history) needsFiles() bool {
	if h.request.Operation == api.Terminate {
		return false
	}
	if h.request.Phase == api.PhaseStart {
		return true
	}
	for _, o := range h.operations {
		if sameKind(o.Request, h.request) {
			return o.Phase != api.PhaseStart || o.State != api.Completed
		}
	}
	return true
}
