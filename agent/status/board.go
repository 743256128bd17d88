package status

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/plain"
	"github.com/nodehitch/nodehitch/shared/version"
)

// Board has the status while the daemon runs. The loops change it, and subscribers are
// notified of changes. It is safe for concurrent use.
type Board struct {
	now func() time.Time

	mu          sync.Mutex
	status      Status
	invalid     bool              // the newest document cannot be used
	reportable  bool              // there is something that the controller should know
	cluster     *api.ClusterFacts // for the controller alone: the status contains no secret
	subscribers []chan struct{}
}

// NewBoard is an empty board for this process. now may be nil.
func NewBoard(facts api.Facts, now func() time.Time) *Board {
	if now == nil {
		now = time.Now
	}
	return &Board{now: now, status: Status{
		AgentVersion: version.Version, PID: os.Getpid(), StartedAt: now().UTC(),
		Node: api.NodeStatus{Conditions: []api.Condition{}, Facts: facts},
	}}
}

// Subscribe returns a channel that gets a value after a change. Changes that
// come before it is read count as one.
func (b *Board) Subscribe() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan struct{}, 1)
	b.subscribers = append(b.subscribers, c)
	return c
}

// Change alters the status; f must not keep it.
func (b *Board) Change(f func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
	plain.Strings(&b.status) // whatever it is from: a process's name, a file, another server
	for _, c := range b.subscribers {
		select {
		case c <- struct{}{}:
		default: // it has not yet seen the change before
		}
	}
}

// Snapshot is a copy of the status.
func (b *Board) Snapshot() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Node.Conditions = slices.Clone(s.Node.Conditions)
	return s
}

// Report is what the controller should know, with secrets that the status does not contain;
// false before there is anything.
func (b *Board) Report() (api.NodeStatus, bool) {
	s := b.Snapshot()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Node.Cluster = b.cluster
	return s.Node, b.reportable
}

// Conditions are the present ones.
func (b *Board) Conditions() []api.Condition { return b.Snapshot().Node.Conditions }

// Restore sets the state before a restart: the last applied document, and its conditions
// for their transition times.
func (b *Board) Restore(doc *api.NodeConfig, digest string, conditions []api.Condition) {
	b.Change(func(s *Status) {
		s.Origin, s.Role = FromDisk, doc.Role
		s.Node.Epoch = doc.Epoch
		s.Node.ObservedGeneration, s.Node.ObservedDigest = doc.Generation, digest
		s.Node.AppliedGeneration, s.Node.AppliedDigest = doc.Generation, digest
		s.Node.Conditions = append(s.Node.Conditions, conditions...)
		b.ready(s, api.ConditionUnknown, api.ReasonConverging, "the agent has started and has not checked the machine yet")
	})
}

// Observed sets the controller's newest document. A new one makes Ready False until it
// has been converged.
func (b *Board) Observed(doc *api.NodeConfig, digest string) {
	b.Change(func(s *Status) {
		s.Origin, s.Role = FromController, doc.Role
		if s.Node.ObservedDigest == digest && s.Node.ObservedGeneration == doc.Generation && !b.invalid {
			return
		}
		b.invalid, b.reportable = false, true
		s.Node.Epoch = doc.Epoch
		s.Node.ObservedGeneration, s.Node.ObservedDigest = doc.Generation, digest
		b.ready(s, api.ConditionFalse, api.ReasonConverging, "the agent is applying the new configuration")
	})
}

// Invalid records that the newest document cannot be used.
func (b *Board) Invalid(generation, epoch int64, digest, message string) {
	b.Change(func(s *Status) {
		b.invalid, b.reportable = true, true
		s.Node.ObservedGeneration, s.Node.ObservedDigest = generation, digest
		s.Node.LastFailedGeneration, s.Node.LastFailedCondition = generation, api.ConditionReady
		if epoch != 0 {
			s.Node.Epoch = epoch
		}
		b.ready(s, api.ConditionFalse, api.ReasonInvalidDocument, message)
	})
}

// Acting shows an action while it runs.
func (b *Board) Acting(e converge.Event) {
	b.Change(func(s *Status) {
		b.reportable = true
		s.Node.Activity = nil
		if !e.Finished {
			s.Node.Activity = &api.Activity{Condition: e.Condition, Summary: e.Summary, StartedAt: b.now().UTC()}
		}
	})
}

// Converged sets the outcome of a pass. While a newer document is invalid, Ready still
// says so.
func (b *Board) Converged(r converge.Report, digest string) {
	b.Change(func(s *Status) {
		b.reportable = true
		before := (&s.Node).Condition(api.ConditionReady)
		s.Node.Activity = nil
		s.Node.Conditions, s.Node.BoundPersistentVolumes = slices.Clone(r.Conditions), r.BoundPersistentVolumes
		s.Node.ControlPlane, b.cluster = r.ControlPlane, r.Cluster
		s.Node.Facts.KubeletVersion = r.KubeletVersion
		if b.invalid && before != nil {
			*s.Node.Condition(api.ConditionReady) = *before
		}
		if c := s.Node.Condition(api.ConditionReady); c.Status == api.ConditionTrue && s.Unsaved != "" {
			c.Message = s.Unsaved
		}
		if r.Converged() {
			s.Node.AppliedGeneration, s.Node.AppliedDigest = r.Generation, digest
		}
		if r.FailedCondition != "" {
			s.Node.LastFailedGeneration, s.Node.LastFailedCondition = r.Generation, r.FailedCondition
		}
	})
}

// Unsaved records that the document in force could not be saved, or with nil that it was.
// It reports whether that is a change. The controller reads it in Ready's message; Ready
// stays True, because the machine has converged.
func (b *Board) Unsaved(err error) (news bool) {
	text := ""
	if err != nil {
		text = "the machine has converged, but the configuration could not be saved for a start without the controller: " + err.Error()
	}
	b.mu.Lock()
	news = b.status.Unsaved != text
	b.mu.Unlock()
	if !news {
		return false
	}
	b.Change(func(s *Status) {
		s.Unsaved = text
		if c := s.Node.Condition(api.ConditionReady); c != nil && c.Status == api.ConditionTrue {
			s.Node.Conditions = slices.Clone(s.Node.Conditions)
			s.Node.Condition(api.ConditionReady).Message = text
		}
	})
	return true
}

// ready sets the Ready condition, among the others.
func (b *Board) ready(s *Status, status api.ConditionStatus, reason api.Reason, message string) {
	c := converge.Transition(s.Node.Conditions, api.Condition{
		Type: api.ConditionReady, Status: status, Reason: reason, Message: message,
		ObservedGeneration: s.Node.ObservedGeneration,
	}, b.now())
	s.Node.Conditions = slices.Clone(s.Node.Conditions)
	if old := s.Node.Condition(api.ConditionReady); old != nil {
		*old = c
		return
	}
	s.Node.Conditions = append(s.Node.Conditions, c)
}
