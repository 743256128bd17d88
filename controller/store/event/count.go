package event

import (
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Metrics counts what has happened. The values of its labels are few.
type Metrics interface {
	// OperationEnded is an operation with its result. The START of one that completed ends a second
	// time if it is taken back.
	OperationEnded(operation, phase, result string)
	// OperationTook is for how long an operation was in progress.
	OperationTook(operation, phase, result string, took time.Duration)
	// NodeReady is how long after its enrollment a node of a role was Ready for the first time.
	NodeReady(role string, after time.Duration)
}

// The results of operations.
const (
	resultCompleted = "completed"
	resultFailed    = "failed"
	resultCancelled = "cancelled"
)

// end is the end of an operation.
type end struct {
	store.Event
	operation api.Operation
}

// step is what a node has come to on its way from its enrollment to Ready. A zero enrolledAt is
// the end of an identity.
type step struct {
	nodeID, role string
	enrolledAt   time.Time
	ready        bool
}

// step notes an event of a node if it is a step.
func (h *derivation) step(e store.Event, n store.Node) {
	s := step{nodeID: n.ID, role: string(n.Role)}
	switch {
	case e.Type == api.HappenedRevoked:
	case e.Type == api.HappenedEnrolled:
		s.enrolledAt = n.Identity.EnrolledAt
	case e.Type == api.HappenedConditionChanged && e.Condition == api.ConditionReady && e.To == string(api.ConditionTrue) && n.Identity.Live():
		s.enrolledAt, s.ready = n.Identity.EnrolledAt, true
	default:
		return
	}
	h.steps = append(h.steps, s)
}

// count counts what is on disk now.
func (l *Log) count(h *derivation) {
	for _, e := range h.ends {
		o, result := e.operation, resultFailed
		switch {
		case e.Type == api.HappenedOperationCancelled:
			result = resultCancelled
		case e.To == string(api.Completed):
			result = resultCompleted
		}
		kind, phase := o.Operation.Kind(o.Type), string(o.Phase)
		l.Metrics.OperationEnded(kind, phase, result)
		if e.From == string(api.Processing) && o.FinishedAt != nil {
			l.Metrics.OperationTook(kind, phase, result, o.FinishedAt.Sub(o.StartedAt))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range h.steps {
		if s.ready && l.enrolled[s.nodeID] {
			l.Metrics.NodeReady(s.role, l.Now().Sub(s.enrolledAt))
		}
		if delete(l.enrolled, s.nodeID); !s.ready && !s.enrolledAt.IsZero() {
			l.enrolled[s.nodeID] = true
		}
	}
}
