package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/sharing"
)

// migrateCommand works while no controller runs, which would answer agents meanwhile.
func migrateCommand() *cobra.Command {
	var file, to string
	cmd := &cobra.Command{
		Use:   "migrate --to etcd",
		Short: "Move the state into etcd, while no controller runs",
		Long: `Move the state of this controller from its data directory into the etcd that its
configuration names (` + "`store.etcd`" + `), so that several controllers can share it. Run it on
the controller's machine. The controller must not run, and nothing may be in etcd under
the prefix.

All records are copied, with the CA's keys sealed among them. Nothing waits for a
confirmation. The old store.db stays, is marked as moved, and no controller starts on it
again. Package files stay where they are. If the command is cut off, run it again.

Start the controller then, and the others with the same seal key. docs/replicas.md has
the whole way.`,
		Example:           "  nodehitch-controller migrate --to etcd --config /etc/nodehitch/controller.yaml",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	settings(cmd, &file, slices.DeleteFunc(slices.Clone(config.Settings), notForRestore))
	cmd.Flags().StringVar(&to, "to", "", "where the state goes: etcd (required)")
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]cobra.Completion{"etcd"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to != "etcd" {
			return fmt.Errorf("--to is %q: the state can be moved to etcd; give --to etcd", to)
		}
		return configured(&file, migrate)(cmd, args)
	}
	return cmd
}

func migrate(cmd *cobra.Command, c config.Loaded, _ []string) error {
	shared, err := requireShared(c.Config)
	if err != nil {
		return err
	}
	m := backup.Migration{DataDirectory: c.DataDirectory, Key: core.SealKey(c.Config), Shared: shared, Now: time.Now}
	done, err := m.Run(cmd.Context())
	if err = errors.Join(err, sharing.GiveHistory(c.DataDirectory)); err != nil {
		return err
	}
	if done.Already {
		fmt.Fprintf(cmd.OutOrStdout(), "The state is in %s already (epoch %d). Nothing was changed.\n", done.To, done.Epoch)
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), `Moved: the state is in %s (epoch %d).
The old store.db is marked as moved. Keep a new backup, and the seal key apart from it:
the CA's keys are in the backup now, sealed. Start the controller.
`, done.To, done.Epoch)
	return nil
}

func requireShared(c config.Config) (func(context.Context) (*store.Shared, error), error) {
	shared := sharing.Opener(c)
	if shared == nil {
		return nil, fmt.Errorf("the configuration names no etcd: set `store.etcd` first; nothing was changed")
	}
	return shared, nil
}
