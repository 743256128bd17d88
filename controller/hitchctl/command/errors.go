package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// printError says what went wrong, with every fault that the controller named.
func (a *app) printError(err error) {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w; is the controller overloaded, or the network slow?", err)
		}
		a.printErrorLine(screen.CleanLines(err.Error()))
		return
	}
	text := present.Problem(*problem)
	if problem.Detail != "" {
		text += ": " + problem.Detail
	}
	before, _, _ := strings.Cut(err.Error(), problem.Error())
	a.printErrorLine(screen.CleanLines(before + text))
	var from fromFlags
	errors.As(err, &from)
	for _, f := range problem.InvalidParams {
		f = from.place(f)
		a.bullet(f.Pointer, f.Message)
	}
	if hint := a.hintFor(err); hint != "" {
		a.printLine("hint", screen.Faint, hint)
	}
}

// fromFlags is an error about a request that was made of flags: the flag of each member of
// the body.
type fromFlags struct {
	error
	flags map[string]string
}

func (f fromFlags) Unwrap() error { return f.error }

// place is the fault at the flag that its member was made of.
func (f fromFlags) place(at fault.Fault) fault.Fault {
	member, rest, below := strings.Cut(strings.TrimPrefix(at.Pointer, "/"), "/")
	flag := f.flags[member]
	switch {
	case flag == "":
		return at
	case below:
		flag += " /" + rest
	}
	return fault.Fault{Pointer: flag, Message: at.Message}
}

func (a *app) hintFor(err error) string {
	switch problemType(err) {
	case api.ProblemOperationInProgress:
		return "`hitchctl wait operation ID` waits for its end, `hitchctl cancel operation ID` ends it"
	case api.ProblemTopologyIncomplete:
		return "--partial allows a topology without them"
	case api.ProblemStackInProgress:
		return "--wait waits for Heat and then continues on its own"
	case api.ProblemStackGone:
		return "name the stack that exists now with --stack-id; TERMINATE needs none"
	case api.ProblemCloudError:
		return "nothing was changed; try again when the cloud answers. The log of nodehitch-controller has the cloud's error"
	}
	if client.Status(err) == http.StatusUnauthorized {
		if a.tokenFrom != "" {
			return "the token is from " + a.tokenFrom
		}
		return "no token is set: give --token-file, NODEHITCH_TOKEN, or a context with one"
	}
	return ""
}

// printErrorLine prints an error to standard error.
func (a *app) printErrorLine(text string) { a.printLine("error", screen.Bad, text) }

// warn prints a warning to standard error.
func (a *app) warn(text string) { a.printLine("warning", screen.Waiting, screen.CleanLines(text)) }

func (a *app) printLine(what string, style screen.Style, text string) {
	head := a.err.Paint(style, what+":") + " "
	for i, line := range strings.Split(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if i > 0 {
			head = ""
		}
		used := len(indent)
		if i == 0 {
			used += len(what) + 2
		}
		for _, piece := range screen.Wrap(strings.TrimSpace(line), room(a.err, used)) {
			fmt.Fprintln(a.err, head+indent+piece)
			head = strings.Repeat(" ", min(used-len(indent), 2))
		}
	}
}

// room is what a screen's width leaves, 0 if it has no limit.
func room(s *screen.Screen, used int) int {
	width := s.Width()
	if width == 0 {
		return 0
	}
	return max(20, width-used)
}

// bullet prints one fault of an error: its place and what is wrong.
func (a *app) bullet(pointer, message string) {
	text := screen.CleanLines(message)
	if pointer != "" {
		text = screen.Clean(pointer) + ": " + text
	}
	for i, piece := range screen.Wrap(text, room(a.err, 4)) {
		indent := "    "
		if i == 0 {
			indent = "  "
		}
		fmt.Fprintln(a.err, indent+piece)
	}
}
