package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
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
	m := backup.Migration{DataDirectory: c.DataDirectory, Key: keyOf(c.Config), Shared: shared, Now: time.Now}
	done, err := m.Run(cmd.Context())
	if err = errors.Join(err, giveHistory(c.Config)); err != nil {
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

// sharing becomes the writer of the store that controllers share.
type sharing func(context.Context) (*store.Shared, error)

// sharingOf is that of the configuration, nil if the controller has a store of its own. No
// controller may run with the same data directory. What is held ends with the process.
func sharingOf(c config.Config) sharing {
	if !c.Store.Etcd.Configured() {
		return nil
	}
	return func(ctx context.Context) (*store.Shared, error) {
		release, err := holdDirectory(c.DataDirectory)
		if err != nil {
			return nil, err
		}
		history, err := store.OpenHistory(filepath.Join(c.DataDirectory, historyFile))
		if err != nil {
			return nil, err
		}
		client, err := connectEtcd(c, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		term, err := client.Campaign(ctx, nil)
		if err != nil {
			return nil, err
		}
		return &store.Shared{Term: locked{term, release}, History: history, Name: nameOf(c.Store.Etcd)}, nil
	}
}

// locked is a term in which this process alone uses the data directory.
type locked struct {
	*etcd.Term
	release func() error
}

func (l locked) Close() error { return errors.Join(l.Term.Close(), l.release()) }

// giveHistory gives what the command has noted, as root perhaps, to the owner of the data
// directory, whose controller reads it.
func giveHistory(c config.Config) error {
	path := filepath.Join(c.DataDirectory, historyFile)
	owner := new(unix.Stat_t)
	if err := unix.Stat(c.DataDirectory, owner); err != nil || core.Missing(path) {
		return err
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}

func requireShared(c config.Config) (sharing, error) {
	shared := sharingOf(c)
	if shared == nil {
		return nil, fmt.Errorf("the configuration names no etcd: set `store.etcd` first; nothing was changed")
	}
	return shared, nil
}

func keyOf(c config.Config) store.KeySource {
	return store.KeySource{File: c.SealKeyFile, Credential: c.KeyCredential}
}
