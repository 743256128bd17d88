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

// flagError is what is said of a flag that cannot be read. If a word of the command line is
// none of the commands that there are in its place, that is the mistake: the flag may well be
// one of the command meant.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	root := cmd.Root()
	meant, word := a.meant(root)
	a.mistaken = meant
	if word != "" {
		return unknownCommand(meant, word)
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		switch expected := valueOf[flag.Value.Type()]; {
		case invalid.GetValue() == "":
			return emptyError([]string{"--" + flag.Name})
		case expected != "":
			return fmt.Errorf("--%s: found %q, expected %s", flag.Name, invalid.GetValue(), expected)
		}
		return fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap())
	}
	var without *pflag.ValueRequiredError
	if errors.As(err, &without) {
		flag := without.GetFlag()
		return fmt.Errorf("--%s needs a value: %s", flag.Name, flag.Usage)
	}
	var syntax *pflag.InvalidSyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("found %s, expected a flag such as --NAME or --NAME=VALUE", syntax.GetSpecifiedFlag())
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	flag := flagName{missing.GetSpecifiedName(), missing.GetSpecifiedShortnames() != ""}
	near := nearest.Name(flag.name, flagsOf(meant))
	relatives := flag.in(relatives(meant))
	switch {
	case flag.of(meant):
		return fmt.Errorf("%s stands behind the command: `%s %[1]s`", flag, meant.CommandPath())
	case flag == flagName{"o", true} && meant.Flags().Lookup("file") != nil:
		return fmt.Errorf("`%s` has no flag %s, because it has one format; --file names the file to write", meant.CommandPath(), flag)
	case near != "":
		return fmt.Errorf("`%s` has no flag %s; did you mean --%s?", meant.CommandPath(), flag, near)
	case len(relatives) > 0:
		return fmt.Errorf("`%s` has no flag %s; it is for %s", meant.CommandPath(), flag, enumerated(relatives))
	case !flag.below(root):
		a.mistaken = root
		return fmt.Errorf("no command of hitchctl has a flag %s", flag)
	}
	return fmt.Errorf("`%s` has no flag %s", meant.CommandPath(), flag)
}

// valueOf says what a flag of a type takes.
var valueOf = map[string]string{
	"bool": "true or false", "duration": "a duration such as 90s, 30m or 2h", "int": "a whole number", "int64": "a whole number",
}

// meant is the command that the words name, also if there are flags before them; and the
// first word that names none, "" if all do. cobra takes a word behind an unknown flag for its
// value, and so the next word for a command.
func (a *app) meant(root *cobra.Command) (cmd *cobra.Command, unknown string) {
	cmd = root
	for i := 0; i < len(a.args) && cmd.HasSubCommands(); i++ {
		word := a.args[i]
		if strings.HasPrefix(word, "-") {
			continue
		}
		next := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
		switch {
		case next >= 0:
			cmd = cmd.Commands()[next]
		case i == 0 || !strings.HasPrefix(a.args[i-1], "-"): // else it is the value of the flag
			return cmd, word
		}
	}
	return cmd, ""
}

// flagName is a flag as it was typed.
type flagName struct {
	name  string
	short bool
}

func (f flagName) String() string {
	if f.short {
		return "-" + f.name
	}
	return "--" + f.name
}

func (f flagName) of(cmd *cobra.Command) bool {
	if f.short {
		return cmd.Flags().ShorthandLookup(f.name) != nil
	}
	return cmd.Flags().Lookup(f.name) != nil
}

// below reports whether a command has the flag, or one below it.
func (f flagName) below(cmd *cobra.Command) bool {
	return f.of(cmd) || slices.ContainsFunc(cmd.Commands(), f.below)
}

// in is the names of the commands that have the flag.
func (f flagName) in(commands []*cobra.Command) (names []string) {
	for _, c := range commands {
		if f.of(c) {
			names = append(names, c.Name())
		}
	}
	return names
}

// relatives are the commands below a group, for a command of one those beside it.
func relatives(cmd *cobra.Command) []*cobra.Command {
	group := cmd
	if !cmd.HasSubCommands() {
		group = cmd.Parent()
	}
	if !group.HasParent() {
		return nil // commands with nothing in common
	}
	return group.Commands()
}

func flagsOf(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// enumerated is "a, b and c".
func enumerated(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
