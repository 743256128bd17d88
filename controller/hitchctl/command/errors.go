package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// printError says what went wrong, with every fault that the controller named.
func (a *app) printError(err error) {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w; is the controller overloaded, or the network slow?", err)
		}
		a.complain(screen.CleanLines(err.Error()))
		return
	}
	text := problem.Title
	if problem.Detail != "" {
		text += ": " + problem.Detail
	}
	before, _, _ := strings.Cut(err.Error(), problem.Error())
	a.complain(screen.CleanLines(before + text))
	for _, f := range problem.InvalidParams {
		a.bullet(f.Pointer, f.Message)
	}
	if hint := hintFor(err); hint != "" {
		a.complainWith("hint", screen.Faint, hint)
	}
}

func hintFor(err error) string {
	if client.Status(err) == http.StatusUnauthorized {
		return "give a token: --token-file, NODEHITCH_TOKEN, or token in ~/.config/nodehitch/hitchctl.yaml"
	}
	return ""
}

// complain prints an error to standard error.
func (a *app) complain(text string) { a.complainWith("error", screen.Bad, text) }

// warn prints a warning to standard error.
func (a *app) warn(text string) { a.complainWith("warning", screen.Waiting, screen.CleanLines(text)) }

func (a *app) complainWith(what string, style screen.Style, text string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		head := ""
		if i == 0 {
			head = a.err.Paint(style, what+":") + " "
		}
		fmt.Fprintln(a.err, head+line)
	}
}

// bullet prints one fault of an error: its place and, below, what is wrong.
func (a *app) bullet(pointer, message string) {
	if pointer == "" {
		fmt.Fprintln(a.err, "  "+screen.CleanLines(message))
		return
	}
	fmt.Fprintln(a.err, "  "+a.err.Paint(screen.Strong, screen.Clean(pointer))+": "+screen.CleanLines(message))
}
