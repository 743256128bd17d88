package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) whoami() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show which controller answers, and whom it takes you for", Args: cobra.NoArgs,
		Example:           "  hitchctl whoami\n  hitchctl --context berlin whoami",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.quick(func(ctx context.Context, c *client.Controller, _ []string) error {
			answer, err := c.GetWhoami(ctx) //nolint:bodyclose // Read closes it
			who, err := client.Read[api.Whoami](answer, err)
			switch {
			case err != nil:
				return err
			case o != asTable:
				return a.encode(o, who)
			}
			controller := string(a.found.Server)
			if len(a.found.Server.List()) > 1 {
				controller = "https://" + answer.Request.URL.Host // the one that has answered
			}
			return a.print(present.Whoami(a.out, *who, controller, a.found.TokenFrom, a.now())...)
		}),
	}
	outputFlag(cmd, &o)
	return cmd
}
