package lcm

import (
	"fmt"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// looks is what is known of looks into stacks, in memory only.
type looks struct {
	mu   sync.Mutex
	last int64
	// taken is the newest look that something was done with, by instance.
	taken map[string]int64
	seen  map[string]seen
}

// seen is what the newest look saw of a stack.
type seen struct {
	number int64
	// stackID is the stack, asked what it was asked by: its id, or a name.
	stackID, asked string
	status, reason string
	from           api.StackSeenFrom
	at             time.Time
	// trouble is why the newest look saw nothing, "" where it did.
	trouble string
}

// begin numbers a look.
func (l *looks) begin() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return l.last
}

// take says whether no newer look was taken for the instance.
func (l *looks) take(instanceID string, number int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < l.taken[instanceID] {
		return false
	}
	if l.taken == nil {
		l.taken = make(map[string]int64)
	}
	l.taken[instanceID] = number
	return true
}

// saw keeps what a look has seen, for people, and says whether it is news to them.
func (l *looks) saw(k *look, at time.Time) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.seen[k.InstanceID]
	if k.number < before.number || k.StackID == "" {
		return false
	}
	now := seen{number: k.number, asked: k.StackID, stackID: k.StackID}
	switch {
	case k.gone != nil:
		now.trouble = k.gone.Detail
	case k.away != nil:
		if before.asked == now.asked || before.stackID == now.asked {
			now = before // it is no other stack because nobody answers
		}
		now.number, now.trouble = k.number, firstText(k.away.Detail, k.away.Title)
	default:
		now.stackID = firstText(stackOf(k.found), k.StackID)
		now.status, now.reason, now.at = k.found.StackStatus, k.found.StackStatusReason, at
		now.from = api.SeenByHeat
		if k.Inline != nil && k.Inline.StackStatus != "" {
			now.from = api.SeenInRequest
		}
	}
	if l.seen == nil {
		l.seen = make(map[string]seen)
	}
	l.seen[k.InstanceID] = now
	return now.status != before.status || now.reason != before.reason || now.trouble != before.trouble || now.stackID != before.stackID
}

// of is what was seen of the instance's stack, false where that was another one, or
// none.
func (l *looks) of(instanceID string, d store.Desired) (seen, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.seen[instanceID]
	return s, ok && d.StackID != "" && (s.stackID == d.StackID || s.asked == d.StackID || s.asked == d.StackName)
}

// forget drops an instance that is no more.
func (l *looks) forget(instanceID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, instanceID)
	delete(l.seen, instanceID)
}

// showStack shows the stack as it was last seen.
func (u *unit) showStack(d *desired, shown *api.Instance) {
	s, ok := u.looks.of(u.inst.ID, d.Desired)
	if ok && s.trouble != "" {
		shown.Warnings = append(shown.Warnings, fault.Root.Key("stackId").Fault(fmt.Sprintf(
			"%s; what was known of the instance stays, and the stack is looked for again by the next operation and when one of its servers calls", s.trouble)))
	}
	if ok && s.status != "" || d.StackName != "" {
		shown.Stack = &api.StackSeen{Name: d.StackName}
	}
	if !ok || s.status == "" {
		return
	}
	shown.Stack.Status, shown.Stack.StatusReason = s.status, s.reason
	shown.Stack.From, shown.Stack.SeenAt = s.from, &s.at
	if d.Topology != nil { // its own status is of the day on which the version was made
		t := *d.Topology
		t.StackStatus, t.StackStatusReason = s.status, s.reason
		shown.Topology = &t
	}
}
