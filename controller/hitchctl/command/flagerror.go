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
	if before := a.args[:max(0, slices.Index(a.args, cmd.CalledAs()))]; slices.Contains(before, flag) {
		// The command that was meant was taken for the flag's value, so this is another one.
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
