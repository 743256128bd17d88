package main

import (
	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/machine/install"
)

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install",
		Short: "Make the agent a service of this machine",
		Long: "Writes the systemd unit " + install.Unit + ", enables it and (re)starts the agent.\n" +
			"The binary has to be at " + install.Binary + ". It may be run again at any time,\n" +
			"for example after the binary was replaced.",
		Example: "  nodehitch-agent install",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return install.Host(config.DefaultFile, cmd.OutOrStdout()).Install(cmd.Context())
		},
	}
}
