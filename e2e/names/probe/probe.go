// Package probe prints the command tree of the program that it is linked into. Only
// builds of command names link it.
package probe

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands prints every command with its arguments and flags, and ends the process.
func Commands(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	show(root)
	os.Exit(0)
}

func show(c *cobra.Command) {
	if c.Name() == "help" {
		return
	}
	c.InitDefaultVersionFlag()
	_, arguments, _ := strings.Cut(c.Use, " ")
	fmt.Println(strings.TrimSpace(c.CommandPath() + " " + arguments))
	for _, name := range c.Aliases {
		fmt.Println(c.CommandPath(), "alias", name)
	}
	for _, value := range c.ValidArgs {
		fmt.Println(c.CommandPath(), "argument", value)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		line := fmt.Sprintf("%s --%s %s", c.CommandPath(), f.Name, f.Value.Type())
		if f.Shorthand != "" {
			line += " -" + f.Shorthand
		}
		if f.DefValue != "" {
			line += " = " + f.DefValue
		}
		fmt.Println(line)
	})
	for _, sub := range c.Commands() {
		show(sub)
	}
}
