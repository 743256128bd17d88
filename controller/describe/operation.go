package describe

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// ShortOperation is the id of an operation with that of its instance shortened.
func ShortOperation(o api.Operation) string {
	return api.OperationID(Short(o.VnfInstanceID), o.Sequence)
}

// OperationName is what an operation is called: INSTANTIATE END, SCALE_IN START.
func OperationName(o api.Operation) string {
	name := string(o.Operation)
	if o.Type != "" {
		name = string(o.Type)
	}
	return name + " " + string(o.Phase)
}

// operationVerbs are the kinds of operations (api.OperationType.Kind) in plain words.
var operationVerbs = map[string]string{
	string(api.Instantiate): "instantiate", string(api.Scale): "scale", string(api.ScaleOut): "scale out", string(api.ScaleIn): "scale in", string(api.Heal): "heal",
	string(api.Terminate): "terminate", string(api.ChangeExtConn): "change external connectivity", string(api.ModifyInfo): "modify information",
	string(api.ChangeVnfPkg): "change the VNF package",
}

// OperationTitle is what a person calls an operation of a kind: "Instantiate", its START "Prepare to
// instantiate".
func OperationTitle(kind string, phase api.OperationPhase) string {
	verb, known := operationVerbs[kind]
	switch {
	case !known:
		return kind + " " + string(phase)
	case phase == api.PhaseStart:
		return "Prepare to " + verb
	}
	return strings.ToUpper(verb[:1]) + verb[1:]
}

// OperationState is a state of an operation as a person would say it; problem is the type of its
// error, "" for none.
func OperationState(s api.OperationState, problem string) string {
	switch s {
	case api.Processing:
		return "In progress"
	case api.Completed:
		return "Completed"
	case api.Failed:
		return cmp.Or(map[string]string{api.ProblemCancelled: "Cancelled", api.ProblemSuperseded: "Superseded", api.ProblemInterrupted: "Interrupted",
			api.ProblemDeadline: "Failed at its deadline"}[problem], "Failed")
	}
	return string(s)
}

// OperationProgress is how far an operation is; of are the operations of its instance, or more.
func OperationProgress(o api.Operation, of []api.Operation) string {
	switch {
	case o.State == api.Processing && o.Phase == api.PhaseStart && len(o.Leaving) > 0:
		return "Waiting for nodes to leave"
	case o.State == api.Processing && slices.ContainsFunc(o.Targets, func(t api.OperationTarget) bool { return !t.Ready }):
		return "Waiting for nodes"
	case o.State == api.Completed && o.Phase == api.PhaseStart && o.Type != api.ScaleIn && !slices.ContainsFunc(of, func(later api.Operation) bool {
		return later.VnfInstanceID == o.VnfInstanceID && later.Sequence > o.Sequence
	}): // a scale-in waits for no END
		return "Completed, waiting for its END"
	case o.Error != nil:
		return OperationState(o.State, o.Error.Type)
	}
	return OperationState(o.State, "")
}

// OfOperation is the tone of an operation's state.
func OfOperation(s api.OperationState) Tone {
	switch s {
	case api.Completed:
		return Good
	case api.Failed:
		return Bad
	}
	return Waiting
}

// Took is how long an operation was in progress, None while it is.
func Took(o api.Operation) string {
	if o.FinishedAt == nil {
		return None
	}
	return Age(o.FinishedAt.Sub(o.StartedAt))
}

// Operation says in one line why an operation failed or what it waits for: a node before those that
// wait for another one.
func Operation(o api.Operation) string {
	if o.Error != nil {
		return ReasonAndMessage(o.Error.Title, o.Error.Detail)
	}
	if o.State != api.Processing {
		return ""
	}
	for _, w := range o.Withheld {
		if w.WaitsFor == "" {
			return ReasonAndMessage(w.Reason, w.Message)
		}
	}
	waits := ""
	for _, t := range o.Targets {
		if t.Ready {
			continue
		}
		text := t.Name + ": " + ReasonAndMessage(t.Reason, t.Message)
		if t.WaitsFor == "" {
			return text
		}
		waits = cmp.Or(waits, text)
	}
	return waits
}

// Forced says what it means that an operation is forced.
const Forced = "members leave the cluster even if it does not let them"

// PersistentVolumes is what becomes of those of a storage server that is healed.
func PersistentVolumes(v api.PersistentVolumesAtHeal) string {
	switch v {
	case api.KeepPersistentVolumes:
		return "keep: Pods wait until the new storage server serves them"
	case api.WithdrawPersistentVolumes:
		return "withdraw: they leave the cluster before the storage server goes"
	}
	return string(v)
}

// OldServerIsOff says who vouches for the old storage server.
func OldServerIsOff(by string) string { return by + " stated that it does not run and never will" }

// Target is what a target of an operation waits for.
func Target(t api.OperationTarget) (text string, tone Tone) {
	if t.Ready {
		return "Ready", Good
	}
	text = cmp.Or(t.Reason, None)
	if t.Final {
		return text + ", final: no waiting mends it", Bad
	}
	return text, OfReason(t.Reason)
}
