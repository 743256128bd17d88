package stack

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Observer observes the stacks of instances, and knows in memory what it saw last. Its
// exported fields are set before use.
type Observer struct {
	Source Source
	Hub    *notify.Hub
	Now    func() time.Time

	mu   sync.Mutex
	last int64
	// taken is the newest observation that something was done with, by instance.
	taken map[string]int64
	seen  map[string]seen
}

// seen is what the newest observation saw of a stack.
type seen struct {
	number int64
	// stackID is the stack, asked what it was asked by: its id, or a name.
	stackID, asked string
	status, reason string
	source         api.StackObservationSource
	at             time.Time
	// failure is why the newest observation saw nothing; "" if it saw the stack.
	failure string
	// unobserved is that there is no cloud to observe it in.
	unobserved bool
}

const observedAgain = "; what was known of the instance stays; the next operation, and the next of its servers that calls, observe the stack again"

// tries is how often one request observes its stack.
const tries = 4

// ErrOvertaken says that an observation is out of date, or what else a request has read
// before its transaction: something newer is in force, or was seen.
var ErrOvertaken = errors.New("the instance was changed while its stack was observed")

// Try lets try observe and act on what it saw, and repeats it if another request came in
// between: an observation for an older desired state does not overwrite a newer one.
func (s *Observer) Try(instanceID string, try func() error) error {
	for range tries {
		if err := try(); !errors.Is(err, ErrOvertaken) {
			return err
		}
	}
	return api.NewProblem(api.ProblemUnavailable, fmt.Sprintf(
		"VNF instance %s changed during each of %d observations of its stack; send the request again", instanceID, tries))
}

// Current refuses an observation that something newer has overtaken; Try then observes
// again.
func (s *Observer) Current(t *tx.Tx, o *Observation) error {
	if t.Instance.DesiredVersion != o.version || !s.take(t.Instance.ID, o.number) {
		return ErrOvertaken
	}
	return nil
}

// begin numbers an observation.
func (s *Observer) begin() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// take reports whether no newer observation was taken for the instance.
func (s *Observer) take(instanceID string, number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.taken[instanceID] {
		return false
	}
	if s.taken == nil {
		s.taken = make(map[string]int64)
	}
	s.taken[instanceID] = number
	return true
}

// saw keeps what an observation saw, for people, and reports whether it is new to them.
func (s *Observer) saw(o *Observation, at time.Time) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.seen[o.InstanceID]
	if o.number < before.number || o.StackID == "" {
		return false
	}
	now := seen{number: o.number, asked: o.StackID, stackID: o.StackID}
	switch {
	case o.Unobserved && (before.asked == now.asked || before.stackID == now.asked):
		return false // what a request said of it stays
	case o.Unobserved:
		now.unobserved = true
	case o.Gone != nil:
		now.failure = o.Gone.Detail + observedAgain
	case o.Away != nil:
		if before.asked == now.asked || before.stackID == now.asked {
			now = before // it is the same stack even if the cloud does not answer
		}
		now.number, now.failure = o.number, cmp.Or(o.Away.Detail, o.Away.Title)+observedAgain
	default:
		now.stackID = cmp.Or(IDOf(o.Found), o.StackID)
		now.status, now.reason, now.at = o.Found.StackStatus, o.Found.StackStatusReason, at
		now.source = api.ObservedByHeat
		if o.Inline != nil && o.Inline.StackStatus != "" {
			now.source = api.ObservedInRequest
		}
	}
	if s.seen == nil {
		s.seen = make(map[string]seen)
	}
	s.seen[o.InstanceID] = now
	return now.status != before.status || now.reason != before.reason || now.failure != before.failure || now.stackID != before.stackID
}

// of is what was seen of the instance's stack; false if no stack was seen, or another one.
func (s *Observer) of(instanceID string, d store.Desired) (seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.seen[instanceID]
	return last, ok && d.StackID != "" && (last.stackID == d.StackID || last.asked == d.StackID || last.asked == d.StackName)
}

// Forget drops an instance that is no more.
func (s *Observer) Forget(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, instanceID)
	delete(s.seen, instanceID)
}

// Show shows the stack as it was last seen.
func (s *Observer) Show(d store.Desired, shown *api.Instance) {
	last, ok := s.of(shown.ID, d)
	if ok && last.unobserved && d.Topology == nil {
		shown.Warnings = append(shown.Warnings, fault.Root.Key("topology").Fault(
			"the stack of `stackId` is not observed, because no cloud is configured: give a `topology` with its servers, or set openstack.cloud in the controller's configuration"))
	}
	if ok && last.failure != "" {
		shown.Warnings = append(shown.Warnings, fault.Root.Key("stackId").Fault(last.failure))
	}
	if ok && last.status != "" || d.StackName != "" {
		shown.Stack = &api.StackObservation{Name: d.StackName}
	}
	if !ok || last.status == "" {
		return
	}
	shown.Stack.Status, shown.Stack.StatusReason = last.status, last.reason
	shown.Stack.Source, shown.Stack.ObservedAt = last.source, &last.at
	if d.Topology != nil { // its own status is of the day on which the version was made
		t := *d.Topology
		t.StackStatus, t.StackStatusReason = last.status, last.reason
		shown.Topology = &t
	}
}
