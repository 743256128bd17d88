package command

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) node() *cobra.Command {
	return group(&cobra.Command{
		Use: "node", Aliases: nodeKind.aliases("node"), Short: "Revoke a node's identity, or let it enroll again",
		Example: "  hitchctl node revoke storage_server\n  hitchctl node reenroll storage_server",
	},
		a.nodeCommand("revoke", "Revoke a node's identity at once",
			"Revoke the node's identity at once. Its agent keeps what it has set up, and can no longer\nask for or report anything.",
			"identity revoked",
			func(ctx context.Context, c *client.Controller, id string) (*http.Response, error) {
				return c.RevokeNode(ctx, id)
			}),
		a.nodeCommand("reenroll", "Let a server that was rebuilt in place enroll once more",
			"Let this server redeem its instance's join token once more, after it was rebuilt in place.\nIts old identity is revoked.",
			"may enroll once more",
			func(ctx context.Context, c *client.Controller, id string) (*http.Response, error) {
				return c.ReenrollNode(ctx, id)
			}),
	)
}

func (a *app) nodeCommand(name, short, long, done string, call func(context.Context, *client.Controller, string) (*http.Response, error)) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: name + " NODE", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example:           "  hitchctl node " + name + " storage_server",
		ValidArgsFunction: nodeKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := nodeKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			n, err := client.Read[api.Node](call(ctx, c, id))
			if err != nil {
				return err
			}
			if o != asTable {
				return a.encode(o, n)
			}
			return a.print("node " + screen.Clean(n.Name) + " (" + n.ID + "): " + done)
		}),
	}
	outputFlag(cmd, &o)
	return cmd
}
