package lifecycle_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// content is what is desired of the instance, as a client sees it.
type content struct {
	version    int64
	Parameters string
	StackID    string
	Topology   *api.Topology
}

func (h *history) content() content {
	i := h.Instance()
	if i.Topology != nil { // Heat's status is an observation, and no desire
		bare := *i.Topology
		bare.StackStatus, bare.StackStatusReason = "", ""
		i.Topology = &bare
	}
	return content{i.DesiredVersion, string(i.AdditionalParams), i.StackID, i.Topology}
}

// begun is what was desired before a START, and the version that it left.
type begun struct {
	before content
	left   int64
}

// began notes what becomes of the desired state by an operation. from is what it built on.
func (h *history) began(op api.Operation, from content) {
	h.terminated = op.Operation == api.Terminate && op.Phase == api.PhaseEnd && op.State == api.Completed
	if op.Phase == api.PhaseStart {
		h.starts[op.Sequence] = begun{from, h.content().version}
	}
}

// open is the sequence of the operation that can still be ended, 0 for none: it is in
// progress, or its END is awaited.
func (h *history) open() int64 {
	i := h.record()
	return max(i.ProcessingSequence, i.AwaitingEndSequence)
}

func (h *history) record() (i store.Instance) {
	h.Must(h.Store.View(func(tx *store.Tx) (err error) { i, _, err = tx.Instances().Get(lifecycletest.InstanceID); return err }))
	return i
}

// takenBack is what is desired once the START that is open has been taken back: what was
// before it, unless that was changed since.
func (h *history) takenBack() content {
	now := h.content()
	if start, ok := h.starts[h.open()]; ok && start.left == now.version {
		return start.before
	}
	return now
}

// tryPut is a PUT that may be refused.
func (h *history) tryPut(s api.InstanceSpec) error {
	if h.members {
		s = lifecycletest.AsMembers(s)
	}
	if h.upgrade != nil {
		s.AdditionalParams = json.RawMessage(strings.Replace(string(s.AdditionalParams), `"script_path"`, `"kubernetes": {"version": "`+h.upgrade.version+`"}, "script_path"`, 1))
	}
	i, _, err := h.Lifecycle.Instances.PutInstance(h.Ctx, lifecycletest.InstanceID, s)
	if err == nil {
		h.parameters, h.terminated = string(i.AdditionalParams), false
	}
	return err
}

// terminatedAfter says whether a TERMINATE is newer than the operation.
func (h *history) terminatedAfter(op api.Operation) bool {
	return slices.ContainsFunc(h.Operations(), func(o api.Operation) bool {
		return o.Operation == api.Terminate && o.Sequence > op.Sequence
	})
}

// repeatAny is a request with a key that comes again, late.
func (h *history) repeatAny(t *rapid.T) {
	if len(h.sent) == 0 {
		t.Skip("no request has a key")
	}
	h.posted(t, rapid.SampledFrom(h.sent).Draw(t, "request"))
}

// cancelAny cancels one of the newest operations: what may not be cancelled changes
// nothing, an END only stops waiting, and a START is taken back.
func (h *history) cancelAny(t *rapid.T) {
	sequence, was, taken := h.record().LastSequence-rapid.Int64Range(0, 2).Draw(t, "operation"), h.content(), h.takenBack()
	op, ok := h.operations[api.OperationID(lifecycletest.InstanceID, sequence)]
	isOpen := ok && sequence == h.open()
	cancelled, err := h.Cancel(api.Operation{Sequence: sequence})
	want := was
	switch {
	case !isOpen || op.Operation == api.Terminate:
		h.unless(err)
		if err == nil {
			t.Fatalf("operation %d, which is over or TERMINATE, is cancelled: %+v", sequence, cancelled)
		}
		h.checkContent(t, was)
		return
	case op.Phase == api.PhaseStart:
		want = taken
	}
	h.Must(err)
	h.observed = time.Time{}
	h.WantRefused(cancelled.Error, api.ProblemCancelled, lifecycletest.Operator)
	if cancelled.State != api.Failed || cancelled.CancelledBy != lifecycletest.Operator || h.open() != 0 {
		t.Fatalf("after it was cancelled the operation is %+v, and operation %d is open", cancelled, h.open())
	}
	h.checkContent(t, want)
}

// checkContent wants this to be desired, under whichever version.
func (h *history) checkContent(t *rapid.T, want content) {
	now := h.content()
	now.version = want.version
	if diff := cmp.Diff(want, now, cmp.AllowUnexported(content{})); diff != "" {
		t.Fatalf("another state is desired (-want +found):\n%s", diff)
	}
}

// checkDesired wants the parameters of the last PUT, and nothing of what was terminated.
func (h *history) checkDesired(t *rapid.T) {
	i := h.Instance()
	if string(i.AdditionalParams) != h.parameters {
		t.Fatalf("the parameters %s are lost, and %s are in force", h.parameters, i.AdditionalParams)
	}
	if h.terminated && (i.State != api.NotInstantiated || i.Topology != nil || len(i.Nodes) > 0) {
		t.Fatalf("nothing came after TERMINATE, and the instance is %s with %+v and the nodes %v", i.State, i.Topology, i.Nodes)
	}
	for _, op := range h.Operations() {
		if op.Error != nil && op.Error.Type == api.ProblemSuperseded && !h.terminatedAfter(op) {
			t.Fatalf("operation %+v was superseded, and no TERMINATE came after it", op)
		}
	}
}

// checkDeadlines wants no operation in progress, and no START that awaits its END, past its
// deadline.
func (h *history) checkDeadlines(t *rapid.T) {
	for _, op := range h.Operations() {
		if (op.State == api.Processing || op.Sequence == h.open()) && !h.Clock.Now().Before(op.Deadline) {
			t.Fatalf("it is %v, and operation %+v is not over", h.Clock.Now(), op)
		}
	}
}
