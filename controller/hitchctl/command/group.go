package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	var names, aliases []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names, aliases = append(names, c.Name()), append(aliases, c.Aliases...)
		}
	}
	if nearest.Name(word, names) == "" && nearest.Name(word, aliases) != "" {
		names = aliases
	}
	return usageError{nearest.Unknown("command", word, names)}
}

// flagError is what is said of a flag that cannot be read. If the word behind a group's name is
// none of its commands, that is the mistake: the flag may well be one of the command meant.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	if word := a.wordAfter(cmd); cmd.HasSubCommands() && word != "" && !strings.HasPrefix(word, "-") {
		return unknownCommand(cmd, word)
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	name := missing.GetSpecifiedName()
	flag, hint := "--"+name, ""
	if missing.GetSpecifiedShortnames() != "" {
		flag = "-" + name
	}
	if slices.Contains(a.args[:max(0, slices.Index(a.args, cmd.CalledAs()))], flag) {
		// What followed it was taken for its value, and the word after that for the command.
		cmd = cmd.Root()
		a.mistaken = cmd
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	near := nearest.Name(name, known)
	switch {
	case flag == "-o" && slices.Contains(known, "file"):
		hint = ", because it has one format; --file names the file to write"
	case near != "":
		hint = "; did you mean --" + near + "?"
	case cmd.HasSubCommands():
		hint = "; flags of a command stand behind it"
	}
	return fmt.Errorf("`%s` has no flag %s%s", cmd.CommandPath(), flag, hint)
}

// wordAfter is the argument behind the command's own name, "" if there is none.
func (a *app) wordAfter(cmd *cobra.Command) string {
	i := slices.Index(a.args, cmd.CalledAs()) + 1 // of the root, which is not there, 0
	if i >= len(a.args) {
		return ""
	}
	return a.args[i]
}
