package command

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// printError says what went wrong, with every fault that the controller named, and what to do.
func (a *app) printError(err error) {
	text := err.Error()
	var problem *api.Problem
	switch {
	case errors.As(err, &problem):
		before, _, _ := strings.Cut(text, problem.Error())
		text = before + subjectOf(err).problem(*problem)
	case errors.Is(err, context.DeadlineExceeded):
		text += "; is the controller overloaded, or the network slow?"
	}
	a.printErrorLine(screen.CleanLines(withoutCalls(text, err)))
	if hint := a.hintFor(err); hint != "" {
		a.printHint(hint)
	}
}

// withoutCalls is the text of an error with words in the place of system calls that failed.
func withoutCalls(text string, err error) string {
	switch e := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case *fs.PathError:
		return strings.ReplaceAll(text, e.Error(), ofFile(e))
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			text = withoutCalls(text, each)
		}
	case interface{ Unwrap() error }:
		return withoutCalls(text, e.Unwrap())
	}
	return text
}

// ofFile is what is wrong with a file, without the name of a system call.
func ofFile(err *fs.PathError) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err.Path + " does not exist"
	case errors.Is(err, fs.ErrPermission):
		return err.Path + ": you may not do that (permission denied)"
	case errors.Is(err, syscall.EISDIR):
		return err.Path + " is a directory; expected a file"
	case errors.Is(err, syscall.ENOTDIR):
		return fileOf(err.Path) + " is a file; expected a directory"
	}
	return err.Path + ": " + err.Err.Error()
}

// fileOf is the part of a path that is no directory.
func fileOf(path string) string {
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			return at
		}
	}
	return path
}

// errorWithHint is an error with what to do about it.
type errorWithHint struct {
	error
	hint string
}

func (h errorWithHint) Unwrap() error { return h.error }

func (a *app) hintFor(err error) string {
	var own errorWithHint
	if errors.As(err, &own) {
		return own.hint
	}
	of := subjectOf(err)
	actions := a.actionsHint(of, err)
	switch problemType(err) {
	case api.ProblemFilesMissing:
		return fmt.Sprintf("`hitchctl apply %s -f request.json --package PACKAGE` uploads them, then run %s again; %s",
			cmp.Or(describe.Short(of.instance), "INSTANCE"), a.typed(), aboutPackage)
	case api.ProblemStackInProgress:
		return "--wait waits for Heat and then continues on its own"
	case api.ProblemStackGone:
		return "name the stack that exists now with --stack-id; TERMINATE needs none"
	case api.ProblemCloudError:
		return "nothing was changed; try again when the cloud answers. The log of nodehitch-controller has the cloud's error"
	}
	var unknown x509.UnknownAuthorityError
	var call *net.OpError
	switch {
	case actions != "":
		return actions
	case client.Status(err) == http.StatusUnauthorized:
		return a.tokenHint()
	case errors.As(err, &unknown):
		return origin("root certificate", a.found.CAFrom, a.found.CAInstead, "hitchctl create token NAME --write-context FILE")
	case errors.As(err, &call) && (errors.Is(err, syscall.ECONNREFUSED) || call.Net == "unix" && errors.Is(err, fs.ErrNotExist)):
		return notThereHint(call.Net == "unix")
	}
	return ""
}

// aboutPackage says what PACKAGE stands for in a command.
const aboutPackage = "PACKAGE is the directory or the CSAR file of the VNF package"

// topologyForm shows what is in topology.json.
const topologyForm = `topology.json has every server, with the connection point of its role, and every volume, by the ids of Nova and Cinder:
      {"servers": [
        {"id": "SERVER_ID", "name": "storage_server",
         "connectionPoints": [
           {"name": "storage_server_CP", "addresses": ["10.10.0.5"]}],
         "volumeIds": ["VOLUME_ID"]}],
       "volumes": [
         {"id": "VOLUME_ID", "resourceId": "storage_server_volume"}]}`

// mendFile is what to do about a file that cannot be read as what it should be.
func (a *app) mendFile() string {
	return "correct or replace the file, then run " + a.typed() + " again"
}

// notThereHint is what to do if nothing listens at an address, or at the path of a socket.
func notThereHint(socket bool) string {
	if socket {
		return "`systemctl status nodehitch-controller` says whether the controller runs, `systemctl start nodehitch-controller` starts it; if it runs, " +
			"`grep socket: /etc/nodehitch/controller.yaml` says where its socket is: give that as `--server unix://PATH`"
	}
	return "on the controller's machine, `systemctl status nodehitch-controller` says whether the controller runs, `systemctl start nodehitch-controller` starts it; " +
		"if it runs, `grep listen: /etc/nodehitch/controller.yaml` says at which port, 8443 if there is no such line: give that as `--server https://HOST:PORT`"
}

// tokenHint says which token was refused, and how to get one that is not.
func (a *app) tokenHint() string {
	if a.found.TokenFrom == "" {
		return "no token is set: give --token-file, NODEHITCH_TOKEN, or a context with one"
	}
	return origin("token", a.found.TokenFrom, a.found.TokenInstead, "hitchctl create token NAME --write-context FILE")
}

// origin says where what was refused is from, where another one is, if any, and the command
// that gives a new one.
func origin(what, from, instead, command string) string {
	text := "the " + what + " is from " + from + "; "
	if instead == "" {
		text += "get another one "
	} else {
		text += "unset that to use the one of " + instead + "; if that is wrong too, "
	}
	return text + "as root on the controller's machine: `" + command + "`"
}

// outcomes are what follows the command of an action. A token that is missing or refused has a
// hint of its own.
var outcomes = map[api.ActionCall]string{
	api.CallAdoptVolume:     "keeps what the volume holds",
	api.CallCancelOperation: "ends it",
	api.CallConfirmInstance: "lets its nodes in again",
	api.CallConfirmToken:    "as root on the controller's machine makes it good again",
	api.CallGetOperation:    "waits for its end",
	api.CallListNodes:       "lists them",
	api.CallListVolumes:     "lists them",
	api.CallPutInstance:     "makes or changes it",
	api.CallReenrollNode:    "lets it enroll again",
	api.CallReformatVolume:  "permits a format, which erases the volume",
	api.CallRevokeNode:      "ends an identity",
	api.CallRevokeToken:     "revokes it",
}

// actionsHint are the actions that the controller names, as commands; "" for none.
func (a *app) actionsHint(of subject, err error) string {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		return ""
	}
	var list []string
	form := ""
	for _, action := range problem.Actions {
		switch outcome := outcomes[action.Call]; {
		case action.Call == api.CallPostOperation && of.flags[action.Member] != "":
			list = append(list, a.again(action.Member, of.flags[action.Member]))
			if action.Member == "topology" {
				form = "; " + topologyForm
			}
		case outcome != "":
			list = append(list, "`"+of.words(action.Command())+"` "+outcome)
		}
	}
	return strings.Join(list, ", ") + form
}

// again is the command as it was typed, with the flag for a member that the controller asks for.
func (a *app) again(member, flag string) string {
	switch member {
	case "topology":
		return a.typed(flag, "topology.json") + " gives them"
	case "partial":
		return a.typed(flag) + " starts it without them"
	}
	return a.typed(flag) + " may pass"
}

// printErrorLine prints an error to standard error.
func (a *app) printErrorLine(text string) { a.printLine("error", screen.Bad, text) }

// warn prints a warning to standard error.
func (a *app) warn(text string) { a.printLine("warning", screen.Waiting, screen.CleanLines(text)) }

// printHint prints what to do to standard error.
func (a *app) printHint(text string) { a.printLine("hint", screen.Faint, text) }

// printLine prints a text of one or more lines behind a word. What of a line does not fit
// is indented further than the line.
func (a *app) printLine(what string, style screen.Style, text string) {
	head, hang := a.err.Paint(style, what+":")+" ", len(what)+2
	for _, line := range strings.Split(text, "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		head += line[:indent]
		for _, piece := range screen.Wrap(line[indent:], room(a.err, indent+hang)) {
			fmt.Fprintln(a.err, head+piece)
			head = strings.Repeat(" ", indent+hang)
		}
		head, hang = "", 2
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
