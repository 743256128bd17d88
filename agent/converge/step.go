// Package converge is the engine: plan, do, plan again. A node is converged when
// the second plan of every step is empty; a step whose second plan is not says
// why in its condition.
package converge

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// A Step owns one condition and one aspect of the node. Steps run in the order in
// which they are declared; one that cannot proceed stops no other, so a step that
// needs what another does looks at the machine, not at the other step.
type Step interface {
	// Condition is the condition type that this step alone reports.
	Condition() string
	// Plan compares the machine with what is desired and returns the actions that
	// would close the gap. It only reads. Errors: *Waiting, *Terminal, or any other
	// error, which is reported as InternalError and tried again. Several may be joined
	// (errors.Join). Actions returned together with an error are those that can be
	// done all the same, for example for the other volumes.
	Plan(ctx context.Context, desired *api.NodeConfig) (Plan, error)
}

// Plan is what a step would do.
type Plan struct {
	// HandsOff says that the document has no section for this step: no condition
	// is reported and nothing is touched.
	HandsOff bool
	// Actions in the order in which they have to be done; none = converged.
	Actions []Action
	// Reason and Message of the condition when there is no action left.
	Reason  api.Reason
	Message string
}

// Action is one change of the machine. Doing it again after a crash at any point
// is safe.
type Action struct {
	// Summary is one line for people, such as "mount /dev/… at /volume".
	Summary string
	// Group is what the action works on, such as a volume id. Actions of one group
	// depend on one another: after a failure the rest of its group is left out,
	// and the other groups go on.
	Group string
	// Do makes the change. Errors as those of Plan.
	Do func(ctx context.Context) error
}

// Waiting says that a step cannot proceed yet and will be tried again.
type Waiting struct {
	Reason  api.Reason
	Message string
}

func (w *Waiting) Error() string { return w.Reason + ": " + w.Message }

// Wait is a *Waiting with a formatted message.
func Wait(reason api.Reason, format string, args ...any) error {
	return &Waiting{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Terminal says that no retry with this document on this machine can mend it; a
// person has to act. The step is still planned again on every pass, so that it
// goes on by itself once the person has acted.
type Terminal struct {
	Reason  api.Reason
	Message string
}

func (t *Terminal) Error() string { return t.Reason + ": " + t.Message }

// Fail is a *Terminal with a formatted message.
func Fail(reason api.Reason, format string, args ...any) error {
	return &Terminal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
