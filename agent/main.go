// Command nodehitch-agent runs on every node: it pulls what the machine should be
// from its controller, makes it so, keeps it so, and reports. This package is the
// command line; what the commands do is in the packages below.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/shared/nocore"
	"github.com/nodehitch/nodehitch/shared/plain"
	"github.com/nodehitch/nodehitch/shared/version"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // not converged, or an error
	exitUsage  = 2 // the command line or the file given is wrong
)

func main() {
	if err := nocore.Disable(); err != nil {
		fmt.Fprintln(os.Stderr, "warning: a crash may write the memory of this process, with its secrets, to disk:", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = plain.Writer(stdout), plain.Writer(stderr)
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	var silent *notConverged
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return exitFailed
	}
	fmt.Fprintln(stderr, "error:", err)
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// usageError is a mistake of the caller.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// notConverged: the report that was printed says all.
type notConverged struct{}

func (*notConverged) Error() string { return "not converged" }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "nodehitch-agent",
		Short: "Makes this machine what its controller asks for, and keeps it so",
		Long: "nodehitch-agent pulls the desired state of this machine from its controller,\n" +
			"converges the machine to it, keeps it there, and reports.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Version,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("there is no command %q; `nodehitch-agent --help` lists them", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.AddCommand(runCommand(), applyCommand(), statusCommand(), installCommand(), upgradeCommand(), selfTestCommand(), versionCommand())
	return root
}

// none is cobra.NoArgs with an error that is a mistake of the caller.
func none(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return &usageError{err}
	}
	return nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this agent", Args: none,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), cmd.Root().Name(), "version", version.Version)
		},
	}
}
