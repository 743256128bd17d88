package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) delete() *cobra.Command {
	return group(&cobra.Command{
		Use: "delete", Short: "Forget an instance that has no live node",
		Example: "  hitchctl delete instance 0b1a5c2e",
	}, &cobra.Command{
		Use: "instance ID", Aliases: otherNames("instance", "instance"),
		Short: "Forget an instance that has no live node", Args: cobra.ExactArgs(1),
		Long: `Forget an instance: its parameters, files, operations and join token. Its nodes
are not touched. The controller refuses it while an operation is running or a node has a live
identity; TERMINATE comes first.`,
		Example:           "  hitchctl operate 0b1a5c2e TERMINATE --wait && hitchctl delete instance 0b1a5c2e",
		ValidArgsFunction: a.complete("instance", true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := resolveInstance(ctx, c, args[0])
			if err != nil {
				return err
			}
			if err := client.Done(c.DeleteInstance(ctx, id, nil)); err != nil {
				return err
			}
			return a.print("instance " + id + " deleted")
		}),
	})
}
