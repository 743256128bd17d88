package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
)

// restoreCommand works while no controller runs, and so not through the API: a running one
// holds the store, and would answer agents during the restore.
func restoreCommand() *cobra.Command {
	var file string
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the state by a backup, while no controller runs",
		Long: `Put a backup, which ` + "`hitchctl backup`" + ` made, in the place of the state. Run it on the
controller's machine with the configuration of the controller, which must not run.
The seal key and pki/ of the controller that made the backup have to be in their
places: they are in no backup.

All of the backup is checked before anything is changed. The state begins a new
epoch: it lacks what was revoked, permitted and finished since the backup, so its
nodes, API tokens and permits are not valid until you confirm them. Agents keep their
configuration meanwhile. docs/backup.md has the steps.`,
		Example: "  nodehitch-controller restore --config /etc/nodehitch/controller.yaml nodehitch.tar\n" +
			"  nodehitch-controller restore --config /etc/nodehitch/controller.yaml --replace nodehitch.tar",
		Args: cobra.ExactArgs(1),
	}
	settings(cmd, &file, slices.DeleteFunc(slices.Clone(config.Settings), func(s config.Setting) bool {
		return s.Flag != "data-directory" && s.Flag != "seal-key-file"
	}))
	cmd.Flags().BoolVar(&replace, "replace", false, "if there is a store already: move it aside, and take over its revocations and formats")
	cmd.RunE = configured(&file, func(cmd *cobra.Command, c config.Loaded, args []string) error {
		restore := backup.Restore{File: args[0], DataDirectory: c.DataDirectory, Replace: replace, Now: time.Now, By: fmt.Sprintf("uid %d of this machine", os.Getuid()),
			Key: store.KeySource{File: c.SealKeyFile, Credential: c.KeyCredential}}
		done, err := restore.Run(cmd.Context())
		if err != nil {
			return err
		}
		return tell(cmd.OutOrStdout(), done)
	})
	return cmd
}

// warnOfRestore reminds of what a restore has left to an operator.
func (s *services) warnOfRestore(log *slog.Logger) {
	waiting := 0
	instances, err := s.LCM.Instances.ListInstances(context.Background())
	for _, i := range instances {
		if i.Unconfirmed {
			waiting++
		}
	}
	if err == nil && waiting > 0 {
		log.Warn("the state was "+s.Store.Origin().String()+"; nodes of these instances are refused until `hitchctl confirm`", "instances", waiting)
	}
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
	case done.Aside != "":
		text += fmt.Sprintf("Carried over from it: identities %d, permits %d, revoked tokens %d.\n", done.Carried.Identities, done.Carried.Permits, done.Carried.Tokens)
	}
	if done.NoRoot {
		text += "There is no pki/ in the data directory. Put the pki/ of the backup's controller there before the start:\n" +
			"its agents trust no other root.\n"
	}
	text += fmt.Sprintf(`Waiting for you: instances %d, API tokens %d. Agents keep what they have and ask again.
Start the controller; then, as root on this machine:
  hitchctl apply INSTANCE …     brings each instance up to date with its present topology
  hitchctl node revoke NODE     each node that was revoked after the backup
  hitchctl confirm --all        lets the nodes in again; shows them first
  hitchctl token confirm ID     or make new tokens
`, done.Instances, done.Tokens)
	_, err := io.WriteString(out, text)
	return err
}
