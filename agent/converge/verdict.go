package converge

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/shared/api"
)

// verdict is what a result means for its condition.
type verdict struct {
	status   api.ConditionStatus
	reason   api.Reason
	message  string
	terminal bool
}

// unknowable are the reasons to wait that say nothing about the state itself.
var unknowable = []api.Reason{api.ReasonUnreadable, api.ReasonWaitingForController, api.ReasonStateDamaged}

func (r *Result) verdict() verdict {
	switch {
	case r.Interrupted:
		return verdict{status: api.ConditionUnknown, reason: api.ReasonConverging, message: "the agent was stopped before it had looked at this to the end"}
	case r.Err != nil:
		return judge(r.Err)
	case len(r.Left) > 0:
		return verdict{status: api.ConditionFalse, reason: api.ReasonConverging, message: "left to do: " + summaries(r.Left)}
	case r.reason == "":
		return verdict{status: api.ConditionTrue, reason: api.ReasonReady, message: r.message}
	}
	return verdict{status: api.ConditionTrue, reason: r.reason, message: r.message}
}

// judge gives the reason that most needs a person: of several joined errors a
// terminal one, else one that waits, else the unexpected. The message has all.
func judge(err error) verdict {
	v := verdict{status: api.ConditionUnknown, reason: api.ReasonInternalError}
	var messages []string
	var waits bool
	for _, each := range leaves(err) {
		message := each.Error()
		var terminal *Terminal
		var waiting *Waiting
		switch {
		case errors.As(each, &terminal):
			if !v.terminal {
				v = verdict{status: api.ConditionFalse, reason: terminal.Reason, terminal: true}
			}
			if each == error(terminal) { //nolint:errorlint // whether it is wrapped is the question
				message = terminal.Message
			}
		case errors.As(each, &waiting):
			if !v.terminal && !waits {
				waits = true
				v.reason, v.status = waiting.Reason, api.ConditionFalse
				if slices.Contains(unknowable, waiting.Reason) {
					v.status = api.ConditionUnknown
				}
			}
			if each == error(waiting) { //nolint:errorlint // as above
				message = waiting.Message
			}
		case full(each) && !v.terminal && !waits:
			waits = true
			v.reason, v.status = api.ReasonNoSpace, api.ConditionFalse
		}
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	v.message = strings.Join(messages, "; ")
	return v
}

// full says that the error is that of a disk, or of a quota on it, with no room left.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only a join itself is taken apart
	if !ok {
		return []error{err}
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, leaves(each)...)
	}
	return all
}

// join is errors.Join that keeps a single error as it is.
func join(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return errors.Join(a, b)
}

func summaries(actions []Action) string {
	lines := make([]string, len(actions))
	for i, a := range actions {
		lines[i] = a.Summary
	}
	return strings.Join(lines, "; ")
}
