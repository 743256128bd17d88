package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) describe() *cobra.Command {
	return group(&cobra.Command{
		Use: "describe", Short: "Show one object in full, with what its reasons mean and what to do",
		Example: `  hitchctl describe node storage_server
  hitchctl describe operation 0b1a5c2e/3`,
	},
		describing(a, nodeKind, func(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
			id, err := nodeKind.resolve(ctx, c, arg)
			if err != nil {
				return nil, err
			}
			n, err := client.Read[api.Node](c.GetNode(ctx, id))
			if err != nil {
				return nil, err
			}
			events, err := happened(ctx, c, api.ListEventsParams{VnfInstanceID: orNil(n.VnfInstanceID), NodeID: &id})
			return present.Node(a.out, *n, events, a.now()), err
		}),
		describing(a, instanceKind, a.describeInstance),
		describing(a, operationKind, func(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
			o, err := operationKind.find(ctx, c, arg)
			if err != nil {
				return nil, err
			}
			most := mostEvents
			events, err := happened(ctx, c, api.ListEventsParams{VnfInstanceID: &o.VnfInstanceID, Limit: &most})
			return present.Operation(a.out, o, events, a.now()), err
		}),
		describing(a, volumeKind, func(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
			id, err := volumeKind.resolve(ctx, c, arg)
			if err != nil {
				return nil, err
			}
			v, err := client.Read[api.Volume](c.GetVolume(ctx, id))
			if err != nil {
				return nil, err
			}
			events, err := happened(ctx, c, api.ListEventsParams{VnfInstanceID: orNil(v.VnfInstanceID), VolumeID: &id})
			return present.Volume(a.out, *v, events, a.now()), err
		}),
	)
}

func (a *app) describeInstance(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
	id, err := instanceKind.resolve(ctx, c, arg)
	if err != nil {
		return nil, err
	}
	i, err := client.Read[api.Instance](c.GetInstance(ctx, id, nil))
	if err != nil {
		return nil, err
	}
	nodes, err := nodeKind.list(ctx, c, scope{instance: id})
	if err != nil {
		return nil, err
	}
	events, err := happened(ctx, c, api.ListEventsParams{VnfInstanceID: &id})
	return present.Instance(a.out, *i, nodes, events, a.now()), err
}

// describing is `describe` for one kind.
func describing[T any](a *app, k kind[T], lines func(context.Context, *client.Controller, string) ([]string, error)) *cobra.Command {
	return &cobra.Command{
		Use: k.singular + " ID", Aliases: k.aliases(k.singular), Short: "Show " + k.withArticle() + " in full",
		Long:    "Show " + k.withArticle() + " in full. For programs there is `hitchctl get " + k.singular + " ID -o json`.",
		Example: "  hitchctl describe " + k.singular + " 4a0dbb52", Args: cobra.ExactArgs(1),
		ValidArgsFunction: k.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			text, err := lines(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.print(text...)
		}),
	}
}
