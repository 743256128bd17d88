package command

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/shared/client"
)

// completeWithin is how long a shell waits for the controller's answer.
const completeWithin = 2 * time.Second

// complete offers the objects of a kind for completion by the shell, and nothing
// if the controller does not answer. once: only for the first argument.
func (a *app) complete(kind string, once bool) cobra.CompletionFunc {
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
		return candidates(ctx, c, kind), cobra.ShellCompDirectiveNoFileComp
	}
}

func candidates(ctx context.Context, c *client.Controller, kind string) []string {
	var all []named
	switch kind {
	case "instance":
		list, _ := listInstances(ctx, c)
		all = names(list, instanceName)
	case "node":
		list, _ := listNodes(ctx, c, scope{})
		all = names(list, nodeName)
	case "operation":
		list, _ := listOperations(ctx, c)
		all = names(list, operationName)
	case "volume":
		list, _ := listVolumes(ctx, c)
		all = names(list, volumeName)
	case "token":
		list, _ := listTokens(ctx, c)
		all = names(list, tokenName)
	case "replica":
		list, _ := listReplicas(ctx, c)
		all = names(list, replicaName)
	}
	var texts []string
	for _, n := range all {
		texts = append(texts, cobra.CompletionWithDesc(n.id, cmp.Or(n.name, n.about)))
	}
	return texts
}
