// Nodehitch-controller holds the desired state of VNF instances and gives each
// node its part of it, when the node asks. See `nodehitch-controller --help`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/shared/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nodehitch-controller:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "nodehitch-controller",
		Short:         "Brings the VMs of Tacker VNFs to their role: the controller",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), restoreCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "nodehitch-controller %s %s/%s %s\n",
				version.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
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
	settings(cmd, &file)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := config.Load(config.Source{File: file, Flags: given(cmd.Flags()), Environ: os.Environ()})
		if err != nil {
			return err
		}
		return serve(cmd.Context(), loaded, newLog(loaded.Log, os.Stderr))
	}
	return cmd
}

// settings gives the command the flags of the configuration, and of its file.
func settings(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "configuration file (YAML)")
	for _, s := range config.Settings {
		cmd.Flags().String(s.Flag, "", s.Usage)
	}
}

// given are the settings that the command line names, also with an empty value.
func given(flags *pflag.FlagSet) map[string]string {
	values := make(map[string]string)
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "replace" {
			values[f.Name] = f.Value.String()
		}
	})
	return values
}
