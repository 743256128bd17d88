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
		Long: "Enables the systemd unit " + install.Unit + " and (re)starts the agent. If the package\n" +
			"is installed (" + install.PackagedBinary + "), that is all. Otherwise the binary has to be at\n" +
			install.Binary + ", and the unit is written. It may be run again at any\n" +
			"time, for example after the binary was replaced.",
		Example: "  nodehitch-agent install",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return install.Host(config.DefaultFile, cmd.OutOrStdout()).Install(cmd.Context())
		},
	}
}
