// Package documents writes what a package has besides a program and comes from its command
// tree: manual pages, and completions for bash, zsh and fish. Only `make package` links it:
// cobra's writer of manual pages would make each program larger.
package documents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Write writes them into the folder os.Args[1], below man, bash, zsh and fish, and ends the
// process. The manual pages are of the version os.Args[2] and the time os.Args[3], in seconds
// since 1970.
func Write(root *cobra.Command) {
	if err := write(root, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "documents:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func write(root *cobra.Command, folder, version, epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return err
	}
	for _, kind := range []string{"man", "bash", "zsh", "fish"} {
		if err := os.MkdirAll(filepath.Join(folder, kind), 0o755); err != nil {
			return err
		}
	}
	date := time.Unix(seconds, 0).UTC()
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "nodehitch " + version, Manual: "nodehitch", Date: &date}, filepath.Join(folder, "man")),
		root.GenBashCompletionFileV2(filepath.Join(folder, "bash", root.Name()), true),
		root.GenZshCompletionFile(filepath.Join(folder, "zsh", "_"+root.Name())),
		root.GenFishCompletionFile(filepath.Join(folder, "fish", root.Name()+".fish"), true),
	)
}
