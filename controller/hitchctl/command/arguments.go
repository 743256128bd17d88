package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nameArguments makes a command and each below it say which argument or flag is missing or
// empty, and how the command is written.
func nameArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		nameArguments(c)
	}
	check := cmd.Args
	if cmd.HasSubCommands() {
		cmd.Args = refuseEmpty
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := refuseEmpty(cmd, args); err != nil || check == nil {
			return err
		}
		line := "`" + cmd.Parent().CommandPath() + " " + cmd.Use + "`"
		wrong := check(cmd, args)
		missing := missingFlags(cmd)
		if names := argumentsOf(cmd); wrong != nil && len(args) < len(names) {
			for i, name := range names[len(args):] {
				names[len(args)+i] = strings.Trim(name, "[].")
			}
			missing = append(names[len(args):], missing...)
		}
		switch {
		case len(missing) == 1:
			return fmt.Errorf("%s is missing: %s%s", missing[0], line, valuesOf(cmd, missing))
		case len(missing) > 1:
			return fmt.Errorf("%s are missing: %s%s", enumerated(missing), line, valuesOf(cmd, missing))
		case wrong != nil:
			return fmt.Errorf("found the arguments %s; expected %s", strings.Join(args, " "), line)
		}
		return nil
	}
}

// refuseEmpty refuses arguments and values of flags that are there and empty: a shell makes them
// of a variable that is not set. Without it the value of a flag that chooses would choose all.
func refuseEmpty(cmd *cobra.Command, args []string) error {
	var empty []string
	names := argumentsOf(cmd)
	for i, arg := range args {
		switch {
		case arg != "":
		case i < len(names):
			empty = append(empty, strings.Trim(names[i], "[]."))
		default:
			empty = append(empty, fmt.Sprintf("argument %d", i+1))
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) == 0 || slices.Contains(values, "") {
			empty = append(empty, "--"+f.Name)
		}
	})
	return emptyError(empty)
}

func emptyError(names []string) error {
	switch len(names) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s is empty; is a variable of the shell not set?", names[0])
	}
	return fmt.Errorf("%s are empty; is a variable of the shell not set?", enumerated(names))
}

// valuesOf says which values the arguments take that have fixed ones: a command has them as
// its annotations.
func valuesOf(cmd *cobra.Command, names []string) (text string) {
	for _, name := range names {
		if values := cmd.Annotations[name]; values != "" {
			text += "; " + name + " is one of " + values
		}
	}
	return text
}

// argumentsOf are the arguments that a command's line names.
func argumentsOf(cmd *cobra.Command) []string {
	words := strings.Fields(cmd.Use)[1:]
	if end := slices.IndexFunc(words, func(word string) bool { return strings.ToUpper(word) != word }); end >= 0 {
		words = words[:end] // flags
	}
	return words
}

// missingFlags are the required flags that were not given.
func missingFlags(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; {
		case !required || f.Changed:
		case f.Shorthand != "":
			names = append(names, "-"+f.Shorthand)
		default:
			names = append(names, "--"+f.Name)
		}
	})
	return names
}
