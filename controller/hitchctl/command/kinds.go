package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

var kinds = []string{"instance", "node", "operation", "volume", "token", "replica"}

// shortNames are what kinds are called beside their singular and plural, as kubectl does it.
var shortNames = map[string]string{"instance": "vnf", "node": "no", "operation": "op", "volume": "vol"}

// otherNames are all names of a kind but the one that a command has already.
func otherNames(kind, used string) []string {
	names := []string{kind, kind + "s"}
	if short := shortNames[kind]; short != "" {
		names = append(names, short)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == used })
}

// splitKinds makes two words of each KIND/ID behind a command that has the kind below it, as
// `-o name` prints it: `describe node/X` is `describe node X`.
func splitKinds(root *cobra.Command, args []string) []string {
	var split []string
	for i, arg := range args {
		kind, id, found := strings.Cut(arg, "/")
		if found && i > 0 && hasKind(root, args[i-1], kind) {
			split = append(split, kind, id)
		} else {
			split = append(split, arg)
		}
	}
	return split
}

// hasKind reports whether the command of the root has one below it for the kind.
func hasKind(root *cobra.Command, command, kind string) bool {
	below, _, err := root.Find([]string{command, kind})
	return err == nil && below.HasParent() && below.Parent() != root &&
		slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(otherNames(k, ""), kind) })
}
