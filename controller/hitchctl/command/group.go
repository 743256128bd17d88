package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/shared/nearest"
)

// group makes a command one that only has others below it. Without one of them it says which
// there are, and with one that there is not, which is probably meant.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		var uses []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				uses = append(uses, c.Use)
			}
		}
		return usagef("`%s` alone does nothing; add one of: %s", cmd.CommandPath(), strings.Join(uses, "; "))
	}
	return cmd
}

func unknownCommand(cmd *cobra.Command, word string) error {
	var names, aliases, verbs []string
	for _, c := range cmd.Commands() {
		if slices.ContainsFunc(c.Commands(), func(below *cobra.Command) bool { return below.Name() == word || below.HasAlias(word) }) {
			verbs = append(verbs, c.Name()+" "+word)
		}
		if c.IsAvailableCommand() {
			names, aliases = append(names, c.Name()), append(aliases, c.Aliases...)
		}
	}
	if len(verbs) > 0 {
		return usagef("there is no command %q; a verb comes first: %s", word, strings.Join(verbs, ", "))
	}
	if nearest.Name(word, names) == "" && nearest.Name(word, aliases) != "" {
		names = aliases
	}
	what := "command"
	if cmd.HasParent() && slices.ContainsFunc(cmd.Commands(), isForKind) {
		what = "kind"
	}
	return usageError{nearest.Unknown(what, word, names)}
}

// isForKind reports whether a command behind a verb is for a kind of objects.
func isForKind(cmd *cobra.Command) bool {
	return slices.ContainsFunc(kindNames, func(k kindName) bool { return slices.Contains(k.aliases(""), cmd.Name()) })
}
