package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/store/sharing"
	"github.com/nodehitch/nodehitch/shared/version"
)

// restoreCommand works while no controller runs, and so not through the API: a running one
// has the store open, and would answer agents during the restore.
func restoreCommand() *cobra.Command {
	var file string
	var replace, etcdWasRestored bool
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Replace the state by a backup, while no controller runs",
		Long: `Put a backup, which ` + "`hitchctl backup`" + ` made, in the place of the state. Run it on the
controller's machine with the configuration of the controller, which must not run.
The seal key and pki/ of the controller that made the backup have to be in their
places. They are in no backup, except that a backup of controllers that share a store
has the CA in it. If the configuration names an etcd (` + "`store.etcd`" + `), the state goes there:
stop all controllers that share it.

All of the backup is checked before anything is changed. The state begins a new
epoch: it lacks what was revoked, permitted and finished since the backup, so its
nodes, API tokens and permits are not valid until you confirm them. Agents keep their
configuration meanwhile. docs/backup.md has the steps.

With --etcd-was-restored there is no FILE. etcd was restored from one of its own backups,
and the controllers refuse it because its history went back. The command begins a new
epoch on what is in etcd, and changes nothing else.`,
		Example: "  nodehitch-controller restore --config /etc/nodehitch/controller.yaml nodehitch.tar\n" +
			"  nodehitch-controller restore --config /etc/nodehitch/controller.yaml --replace nodehitch.tar\n" +
			"  nodehitch-controller restore --config /etc/nodehitch/controller.yaml --etcd-was-restored",
		Args: func(cmd *cobra.Command, args []string) error {
			if etcdWasRestored {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	settings(cmd, &file, slices.DeleteFunc(slices.Clone(config.Settings), notForRestore))
	cmd.Flags().BoolVar(&replace, "replace", false, "if there is a state already: move it aside, and take over its revocations and formats")
	cmd.Flags().BoolVar(&etcdWasRestored, "etcd-was-restored", false, "restore no backup: begin a new epoch, because etcd was restored from its own")
	cmd.MarkFlagsMutuallyExclusive("replace", "etcd-was-restored")
	cmd.RunE = configured(&file, func(cmd *cobra.Command, c config.Loaded, args []string) error {
		if etcdWasRestored {
			return beginEpoch(cmd, c)
		}
		restore := backup.Restore{File: args[0], DataDirectory: c.DataDirectory, Replace: replace, Version: version.Version, Now: time.Now, By: caller(),
			Key: core.SealKey(c.Config), Shared: sharing.Opener(c.Config)}
		done, err := restore.Run(cmd.Context())
		if err = errors.Join(err, sharing.GiveHistory(c.DataDirectory)); err != nil {
			return err
		}
		return tell(cmd.OutOrStdout(), done)
	})
	return cmd
}

// caller is who runs the command, as the events say it.
func caller() string { return fmt.Sprintf("uid %d of this machine", os.Getuid()) }

// notForRestore: the command does not need the setting.
func notForRestore(s config.Setting) bool {
	return s.Flag != "data-directory" && s.Flag != "seal-key-file"
}

// beginEpoch follows a restore of etcd by others.
func beginEpoch(cmd *cobra.Command, c config.Loaded) error {
	shared, err := requireShared(c.Config)
	if err != nil {
		return err
	}
	command := backup.WasRestored{DataDirectory: c.DataDirectory, Key: core.SealKey(c.Config), Shared: shared, By: caller(), Now: time.Now}
	done, err := command.Run(cmd.Context())
	if err = errors.Join(err, sharing.GiveHistory(c.DataDirectory)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Begun: the epoch %d, on the state in etcd.\n%s", done.Epoch, next(done))
	return err
}

// tell says what was done and what is left to do.
func tell(out io.Writer, done backup.Restored) error {
	m := done.Manifest
	text := fmt.Sprintf("Restored: the state of %s (epoch %d, package files %d), as epoch %d.\n",
		m.TakenAt.UTC().Format(time.RFC3339), m.Epoch, m.PackageFiles, done.Epoch)
	if done.Aside != "" {
		text += fmt.Sprintf("The store that was there is in %s.\n", done.Aside)
	}
	switch {
	case done.Unread != nil:
		text += fmt.Sprintf("It could not be read (%v), so nothing was carried over from it:\nrevoke again by hand what was revoked since the backup, nodes and API tokens.\n", done.Unread)
	case done.Lost != nil:
		text += fmt.Sprintf("Carried over from it: identities %d, permits %d, revoked tokens %d.\n"+
			"But etcd had lost changes that this controller has seen: revoke again by hand what was revoked\nsince the backup, nodes and API tokens.\n",
			done.Carried.Identities, done.Carried.Permits, done.Carried.Tokens)
	case done.Aside != "":
		text += fmt.Sprintf("Carried over from it: identities %d, permits %d, revoked tokens %d.\n", done.Carried.Identities, done.Carried.Permits, done.Carried.Tokens)
	}
	if done.NoRoot {
		text += "There is no pki/ in the data directory. Put the pki/ of the backup's controller there before the start:\n" +
			"its agents trust no other root.\n"
	}
	_, err := io.WriteString(out, text+next(done))
	return err
}

// next is what is left to do.
func next(done backup.Restored) string {
	return fmt.Sprintf(`Waiting for you: instances %d, API tokens %d. Agents keep what they have and ask again.
Start the controller; then, as root on this machine:
  hitchctl apply INSTANCE …         brings each instance up to date with its present topology
  hitchctl node revoke NODE         each node that was revoked after the backup
  hitchctl confirm instance --all   lets the nodes in again; shows them first
  hitchctl confirm token ID         or make new tokens
`, done.Instances, done.Tokens)
}
