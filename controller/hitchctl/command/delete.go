package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) delete() *cobra.Command {
	return group(&cobra.Command{
		Use: "delete", Short: "Forget an instance that has no live node; revoke an API token",
		Example: "  hitchctl delete instance 0b1a5c2e\n  hitchctl delete token alice",
	}, &cobra.Command{
		Use: "instance ID", Aliases: instanceKind.aliases("instance"),
		Short: "Forget an instance that has no live node", Args: cobra.ExactArgs(1),
		Long: `Forget an instance: its parameters, files, operations and join token. Its nodes
are not touched. The controller refuses it while an operation is running or a node has a live
identity; TERMINATE comes first.`,
		Example:           "  hitchctl operate 0b1a5c2e TERMINATE --wait && hitchctl delete instance 0b1a5c2e",
		ValidArgsFunction: instanceKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := instanceKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			if err := client.Done(c.DeleteInstance(ctx, id, nil)); err != nil {
				return deleteError(id, err)
			}
			return a.print("instance " + id + " deleted")
		}),
	}, &cobra.Command{
		Use: "token TOKEN", Aliases: tokenKind.aliases("token"),
		Short: "Revoke an API token at once", Args: cobra.ExactArgs(1),
		Example:           "  hitchctl delete token alice",
		ValidArgsFunction: tokenKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			token, err := tokenKind.find(ctx, c, args[0])
			if err != nil {
				return err
			}
			if err := client.Done(c.RevokeToken(ctx, token.ID)); err != nil {
				return err
			}
			return a.print("token " + token.ID + " revoked")
		}),
	})
}

// deleteError is why the instance is not deleted. Only its nodes conflict with that.
func deleteError(id string, err error) error {
	err = subjectError{err, subject{instance: id}}
	if problemType(err) != api.ProblemConflict {
		return err
	}
	return errorWithHint{err, fmt.Sprintf("if its VMs run, `hitchctl operate %s TERMINATE --wait`; for each node whose VM is gone, `hitchctl node revoke NODE`; "+
		"then `hitchctl delete instance %[1]s` again", describe.Short(id))}
}
