package converge

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/nodehitch/nodehitch/shared/api"
)

// outcome is what a result means for its condition.
type outcome struct {
	status    api.ConditionStatus
	reason    api.Reason
	message   string
	adoptable []api.AdoptableVolume
	terminal  bool
}

// unknowable are the reasons to wait that say nothing about the state itself.
var unknowable = []api.Reason{api.ReasonUnreadable, api.ReasonWaitingForController, api.ReasonStateDamaged}

// outcome is that of the last plan. A status with a longer message is refused as a whole.
func (r *Result) outcome() outcome {
	o := r.whole()
	o.message = cut(o.message, api.LongestMessage)
	return o
}

// cut is a text of at most so many characters, with a mark if it was longer.
func cut(text string, most int) string {
	const mark = " … (cut)"
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-utf8.RuneCountInString(mark)]) + mark
}

func (r *Result) whole() outcome {
	switch {
	case r.Interrupted:
		return outcome{status: api.ConditionUnknown, reason: api.ReasonConverging, message: "the agent was stopped before it had checked this"}
	case r.Err != nil:
		return classify(r.Err)
	case len(r.Left) > 0:
		return outcome{status: api.ConditionFalse, reason: api.ReasonConverging, message: "left to do: " + summaries(r.Left)}
	case r.reason == "":
		return outcome{status: api.ConditionTrue, reason: api.ReasonReady, message: r.message}
	}
	return outcome{status: api.ConditionTrue, reason: r.reason, message: r.message}
}

// classify returns the reason that most needs an operator: of several joined errors the first
// *Terminal, else the first *Waiting, else an unexpected one. A step puts them in order. The
// message has all of them.
func classify(err error) outcome {
	o := outcome{status: api.ConditionUnknown, reason: api.ReasonInternalError}
	var messages []string
	var adoptable []api.AdoptableVolume
	var waits bool
	for _, each := range leaves(err) {
		message := each.Error()
		var terminal *Terminal
		var waiting *Waiting
		switch {
		case errors.As(each, &terminal):
			if !o.terminal {
				o = outcome{status: api.ConditionFalse, reason: terminal.Reason, terminal: true}
			}
			adoptable = append(adoptable, terminal.Adoptable...)
			if each == error(terminal) { //nolint:errorlint // whether it is wrapped is the question
				message = terminal.Message
			}
		case errors.As(each, &waiting):
			if !o.terminal && !waits {
				waits = true
				o.reason, o.status = waiting.Reason, api.ConditionFalse
				if slices.Contains(unknowable, waiting.Reason) {
					o.status = api.ConditionUnknown
				}
			}
			if each == error(waiting) { //nolint:errorlint // as above
				message = waiting.Message
			}
		case full(each) && !o.terminal && !waits:
			waits = true
			o.reason, o.status = api.ReasonNoSpace, api.ConditionFalse
		}
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	o.message, o.adoptable = strings.Join(messages, "; "), adoptable[:min(len(adoptable), api.MostAdoptable)]
	return o
}

// full reports whether a disk or a quota is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// leaves splits joined errors.
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

// join is errors.Join, but returns a single error unchanged.
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
