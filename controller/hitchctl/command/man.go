package command

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/nodehitch/nodehitch/shared/version"
)

// man writes the manual pages, for packages.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a directory", Args: cobra.ExactArgs(1),
		Long:    "Write a manual page of section 1 for every command. The same build writes the same bytes.",
		Example: "  hitchctl man /usr/local/share/man/man1",
		RunE: a.run(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("writing the manual: %w", err)
			}
			root := a.root()
			root.DisableAutoGenTag = true
			epoch := time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Section: "1", Source: "nodehitch " + version.Version, Manual: "nodehitch", Date: &epoch}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("writing the manual: %w", err)
			}
			return nil
		}),
	}
}
