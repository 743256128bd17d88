package command

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeWithin is how long a shell waits for the controller's answer.
const completeWithin = 2 * time.Second

// complete offers the objects of a kind for completion by the shell, and nothing
// if the controller does not answer. once: only for the first argument.
func (k kind[T]) complete(a *app, once bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if once && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.controller()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		all, _ := k.list(ctx, c, scope{})
		var texts []string
		for _, n := range k.names(all) {
			texts = append(texts, cobra.CompletionWithDesc(n.id, cmp.Or(n.name, n.about)))
		}
		return texts, cobra.ShellCompDirectiveNoFileComp
	}
}
