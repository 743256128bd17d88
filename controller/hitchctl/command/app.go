// Package command is hitchctl's command line: one file for each command, which
// says what the command does and leaves the how to the packages beside this one.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/connect"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/client"
)

// The exit codes. They are part of the interface.
const (
	exitOK = 0
	// exitFailed: the command line is right, and the command failed: refused, faults found, timed
	// out, or something that it names is not there, as an instance, a file or a context.
	exitFailed = 1
	// exitUsage: the command line is wrong: it lacks something, or has a command, kind, flag or
	// value that there is not. The help that the answer names has those that there are.
	exitUsage = 2
	// exitInterrupted: by SIGINT or SIGTERM, as shells have it.
	exitInterrupted = 130
)

// app is one run of hitchctl.
type app struct {
	in       *os.File
	out, err *screen.Screen
	getenv   func(string) string
	now      func() time.Time

	args   []string // of the command line, without the program
	target connect.Flags
	// found is the controller that the command talks to.
	found connect.Target
	// mistaken is the command whose help tells what is wrong, nil for the one that ran.
	mistaken *cobra.Command
	// running says that the command line was understood.
	running bool
}

// Main runs hitchctl with the process's arguments and gives its exit code.
func Main() int {
	a := &app{
		in: os.Stdin, out: screen.New(os.Stdout, os.Getenv), err: screen.New(os.Stderr, os.Getenv),
		getenv: os.Getenv, now: time.Now, args: os.Args[1:],
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := a.root()
	a.args = splitKinds(root, a.args)
	root.SetArgs(a.args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errSaid):
		return exitFailed
	}
	var usage usageError
	if a.running && !errors.As(err, &usage) {
		a.printError(err)
		return exitFailed
	}
	a.printErrorLine(screen.CleanLines(err.Error()))
	fmt.Fprintf(a.err, "See `%s --help`.\n", cmp.Or(a.mistaken, cmd).CommandPath())
	return exitUsage
}

// errSaid ends a command that has already said what is wrong.
var errSaid = errors.New("failed")

// usageError is a command line that makes no sense for a reason that only the
// command itself can see.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// typed is the command line in backticks, as it was typed, with more words behind it.
func (a *app) typed(more ...string) string {
	line := "`hitchctl"
	for _, word := range slices.Concat(a.args, more) {
		line += " " + shellWord(word)
	}
	return line + "`"
}

// shellWord is a word as a shell takes it.
func shellWord(word string) string {
	if word == "" || strings.ContainsFunc(word, special) {
		word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return screen.Clean(word)
}

// special says whether a character may mean something to a shell.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:=,@%+", r)
}

// run wraps what a command does: from here on, errors are no longer of usage.
func (a *app) run(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.running = true
		return do(cmd.Context(), args)
	}
}

// controller is a client for the controller that the user means.
func (a *app) controller() (*client.Controller, error) {
	target, err := connect.Find(a.target, a.getenv)
	if err != nil {
		return nil, err
	}
	a.found = target
	if target.HoldsPrivateKey() {
		a.warn("the file with the root certificate also holds a private key; a copy of it on another machine needs the certificate alone")
	}
	return target.Client(a.warn)
}

// withController wraps what a command does with the controller. Each of its
// calls may take a minute, unless the command takes care of time itself.
func (a *app) withController(do func(ctx context.Context, c *client.Controller, args []string) error) func(*cobra.Command, []string) error {
	return a.run(func(ctx context.Context, args []string) error {
		c, err := a.controller()
		if err != nil {
			return err
		}
		defer c.CloseIdle()
		return do(ctx, c, args)
	})
}

// callTimeout bounds one call that has no reason to take long.
const callTimeout = time.Minute

// quick wraps commands that are done after a few calls.
func (a *app) quick(do func(ctx context.Context, c *client.Controller, args []string) error) func(*cobra.Command, []string) error {
	return a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
		ctx, cancel := withinCall(ctx)
		defer cancel()
		return do(ctx, c, args)
	})
}

func withinCall(ctx context.Context) (context.Context, context.CancelFunc) {
	return within(ctx, callTimeout)
}

func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", present.Typed(limit)))
}
