// Nodehitch-controller keeps the desired state of VNF instances and gives each
// node its part of it, when the node asks. See `nodehitch-controller --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/recentlog"
	"github.com/nodehitch/nodehitch/controller/serve"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/plain"
	"github.com/nodehitch/nodehitch/shared/version"
)

// The exit codes, beside 0.
const (
	exitFailed = 1
	exitUsage  = 2 // the command line or the configuration is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(plain.Writer(os.Stderr), "nodehitch-controller:", err)
	var running *runError
	if errors.As(err, &running) {
		os.Exit(exitFailed)
	}
	os.Exit(exitUsage)
}

// runError is what went wrong once command line and configuration were understood.
type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

// configured reads the configuration and runs the command with it.
func configured(file *string, run func(cmd *cobra.Command, c config.Loaded, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := config.Load(config.Source{File: *file, Flags: given(cmd.Flags()), Environ: os.Environ()})
		if err != nil {
			return err
		}
		if err := run(cmd, c, args); err != nil {
			return &runError{err}
		}
		return nil
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "nodehitch-controller",
		Short:         "Brings the VMs of Tacker VNFs to their role: the controller",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Version,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var missing *pflag.NotExistError
		if !errors.As(err, &missing) {
			return err
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		if near := nearest.Name("--"+missing.GetSpecifiedName(), known); near != "" {
			return fmt.Errorf("%w; did you mean %s?", err, near)
		}
		return fmt.Errorf("%w; `%s --help` lists them", err, cmd.CommandPath())
	})
	root.AddCommand(serveCommand(), restoreCommand(), migrateCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this controller",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), cmd.Root().Name(), "version", version.Version)
		},
	}
}

func serveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API until SIGTERM",
		Long: "Serve the API until SIGTERM.\n\nA flag wins over its environment variable (" + config.EnvironmentPrefix +
			"<FLAG>, upper case, _ for -),\nthat over the file, and that over the default. Without --config no file is read.\n" +
			"docs/controller.md has the settings and what they mean; controller/config/controller.yaml\nhas each with its default.",
		Example: "  nodehitch-controller serve --config /etc/nodehitch/controller.yaml\n" +
			"  nodehitch-controller serve --names controller.example --agent-directory \"$PWD/bin\"",
		Args: cobra.NoArgs,
	}
	settings(cmd, &file, config.Settings)
	cmd.RunE = configured(&file, func(cmd *cobra.Command, c config.Loaded, _ []string) error {
		return serve.Run(cmd.Context(), c, slog.New(recentlog.New(newLog(c.Log, os.Stderr).Handler())))
	})
	return cmd
}

// settings gives the command the flags of these settings, and of the file.
func settings(cmd *cobra.Command, file *string, all []config.Setting) {
	cmd.Flags().StringVar(file, "config", "", "configuration file (YAML)")
	for _, s := range all {
		f := cmd.Flags().VarPF(&setting{kind: s.Type}, s.Flag, "", s.Usage)
		if s.Type == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// setting is the value of a flag. config.Load parses it, so that the user hears of every
// fault at once.
type setting struct{ text, kind string }

func (s *setting) String() string { return s.text }
func (s *setting) Type() string   { return s.kind }

func (s *setting) Set(text string) error {
	s.text = text
	return nil
}

// given are the settings that the command line names, also with an empty value.
func given(flags *pflag.FlagSet) map[string]string {
	values := make(map[string]string)
	flags.Visit(func(f *pflag.Flag) {
		if s, ok := f.Value.(*setting); ok {
			values[f.Name] = s.text
		}
	})
	return values
}
