package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const cancelHelp = `End an operation before its deadline. Its record is FAILED and says who cancelled it.

An END only stops waiting: its nodes continue to converge, its topology stays in force,
and identities that it has revoked stay revoked. A START is taken back, also a COMPLETED
one that awaits its END: the desired state before it is in force again, and
PersistentVolumes that it withdrew are registered again.

TERMINATE cannot be cancelled, and neither can an operation that is over.`

func (a *app) cancel() *cobra.Command {
	return group(&cobra.Command{
		Use: "cancel", Short: "End an operation before its deadline",
		Example: "  hitchctl cancel operation 0b1a5c2e/3",
	}, a.cancelOperation())
}

func (a *app) cancelOperation() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "operation ID", Aliases: operationKind.aliases("operation"),
		Short: "End an operation before its deadline", Long: cancelHelp, Args: cobra.ExactArgs(1),
		Example: `  hitchctl cancel operation 0b1a5c2e/3
  hitchctl cancel operation 0b1a5c2e/3 -o json`,
		ValidArgsFunction: operationKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			named, err := operationKind.find(ctx, c, args[0])
			if err != nil {
				return err
			}
			cancelled, err := client.Read[api.Operation](c.CancelOperation(ctx, named.VnfInstanceID, named.Sequence))
			if err != nil {
				return err
			}
			if o != asTable {
				return a.encode(o, cancelled)
			}
			text := titleOf(*cancelled) + " is " + string(cancelled.State)
			if cancelled.Error != nil {
				text += ": " + screen.CleanLines(cancelled.Error.Detail)
			}
			return a.print(text)
		}),
	}
	outputFlag(cmd, &o)
	return cmd
}
