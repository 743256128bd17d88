package describe

import (
	"cmp"

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

// Operation says in one line why an operation failed or what it waits for.
func Operation(o api.Operation) string {
	if o.Error != nil {
		return ReasonAndMessage(o.Error.Title, o.Error.Detail)
	}
	if o.State != api.Processing {
		return ""
	}
	for _, w := range o.Withheld {
		return ReasonAndMessage(w.Reason, w.Message)
	}
	for _, t := range o.Targets {
		if !t.Ready {
			return t.Name + ": " + ReasonAndMessage(t.Reason, t.Message)
		}
	}
	return ""
}

// Forced says what it means that an operation is forced.
const Forced = "members leave the cluster even if it does not let them"

// Target is what a target of an operation waits for.
func Target(t api.OperationTarget) (text string, tone Tone) {
	if t.Ready {
		return "Ready", Good
	}
	text = cmp.Or(t.Reason, None)
	if t.Final {
		return text + ", final: no waiting mends it", Bad
	}
	return text, Waiting
}
