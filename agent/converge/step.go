// Package converge is the engine: plan, act, plan again. A node is converged when the
// second plan of every step is empty. A step whose second plan is not empty says why
// in its condition.
package converge

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// A Step owns one condition and one aspect of the node. Steps run in the order of
// their declaration. A step that cannot proceed stops no other, so a step that depends
// on another checks the machine, not the other step.
type Step interface {
	// Condition is the condition type that only this step reports.
	Condition() string
	// Plan compares the machine with the desired state and returns the actions that
	// close the gap. It only reads. Errors: *Waiting, *Terminal, or any other error,
	// which is reported as InternalError and retried. Several may be joined (errors.Join).
	// Actions returned together with an error run nevertheless, for example those for
	// other volumes.
	Plan(ctx context.Context, desired *api.NodeConfig) (Plan, error)
}

// Plan is what a step would do.
type Plan struct {
	// HandsOff says that the document has no section for this step: it reports no
	// condition and changes nothing.
	HandsOff bool
	// Actions in the order in which they have to run; none = converged.
	Actions []Action
	// Reason and Message of the condition if no action is left.
	Reason  api.Reason
	Message string
	// BoundPersistentVolumes goes into the status, whatever comes of the plan.
	BoundPersistentVolumes []api.BoundPersistentVolume
	// KubeletVersion is that of kubelet on the machine, and goes into the status's facts.
	KubeletVersion string
	// ControlPlane goes into the status, whatever comes of the plan; nil for nothing.
	ControlPlane *api.ControlPlaneFacts
	// Cluster goes into the status that the controller gets, whatever comes of the plan. It
	// may contain a secret.
	Cluster api.ClusterFacts
}

// Action is one change of the machine. It is safe to repeat it after a crash at any
// point.
type Action struct {
	// Summary is one line for people, such as "mount /dev/… at /volume".
	Summary string
	// Group is what the action works on, such as a volume id. Actions of a group depend
	// on one another: after a failure the rest of the group is skipped; other groups
	// continue.
	Group string
	// ClusterScoped says that it changes more than this node, as all actions of a ClusterScoped
	// step do. Such an action of another step keeps all of that plan back.
	ClusterScoped bool
	// Do makes the change. Errors as those of Plan.
	Do func(ctx context.Context) error
}

// Waiting says that a step cannot proceed yet and will be retried.
type Waiting struct {
	Reason  api.Reason
	Message string
}

func (w *Waiting) Error() string { return w.Reason + ": " + w.Message }

// Wait is a *Waiting with a formatted message.
func Wait(reason api.Reason, format string, args ...any) error {
	return &Waiting{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Terminal says that no retry with this document on this machine can succeed; an
// operator has to act. The step is still planned on every pass, so it continues on its
// own once the operator has acted.
type Terminal struct {
	Reason  api.Reason
	Message string
	// Adoptable are the volumes whose filesystem can be kept.
	Adoptable []api.AdoptableVolume
}

func (t *Terminal) Error() string { return t.Reason + ": " + t.Message }

// Fail is a *Terminal with a formatted message.
func Fail(reason api.Reason, format string, args ...any) error {
	return &Terminal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
