package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// describer makes the lines about the object that the argument names.
type describer func(ctx context.Context, c *client.Controller, arg string) ([]string, error)

func (a *app) describe() *cobra.Command {
	describers := map[string]describer{}
	return group(&cobra.Command{
		Use: "describe", Short: "Show objects in full, with what their reasons mean and what to do",
		Example: `  hitchctl describe node storage_server
  hitchctl describe node/4a0dbb52 volume/9a0d71ce
  hitchctl describe operation 0b1a5c2e/3`,
	},
		describing(a, describers, nodeKind, func(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
			id, err := nodeKind.resolve(ctx, c, arg)
			if err != nil {
				return nil, err
			}
			n, err := client.Read[api.Node](c.GetNode(ctx, id, nil))
			if err != nil {
				return nil, err
			}
			events, err := happened(ctx, c, api.ListEventsParams{VnfInstanceID: orNil(n.VnfInstanceID), NodeID: &id})
			return present.Node(a.out, *n, events, a.now()), err
		}),
		describing(a, describers, instanceKind, a.describeInstance),
		describing(a, describers, operationKind, func(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
			o, err := operationKind.find(ctx, c, arg)
			if err != nil {
				return nil, err
			}
			most := mostEvents
			events, err := happened(ctx, c, api.ListEventsParams{VnfInstanceID: &o.VnfInstanceID, Limit: &most})
			return present.Operation(a.out, o, events, a.now()), err
		}),
		describing(a, describers, volumeKind, func(ctx context.Context, c *client.Controller, arg string) ([]string, error) {
			id, err := volumeKind.resolve(ctx, c, arg)
			if err != nil {
				return nil, err
			}
			v, err := client.Read[api.Volume](c.GetVolume(ctx, id, nil))
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

// describing is `describe` for one kind. Others may follow as KIND/ID.
func describing[T any](a *app, describers map[string]describer, k kind[T], lines describer) *cobra.Command {
	for _, name := range k.aliases("") {
		describers[name] = lines
	}
	return &cobra.Command{
		Use: k.singular + " ID...", Aliases: k.aliases(k.singular), Short: "Show " + k.withArticle() + " in full",
		Long:    "Show " + k.withArticle() + " in full. For programs there is `hitchctl get " + k.singular + " ID -o json`.",
		Example: "  hitchctl describe " + k.singular + " 4a0dbb52", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: k.complete(a, false),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			var text []string
			for i, arg := range args {
				lines := lines
				if kind, id, _ := strings.Cut(arg, "/"); describers[kind] != nil {
					lines, arg = describers[kind], id
				}
				its, err := lines(ctx, c, arg)
				if err != nil {
					return err
				}
				if i > 0 {
					text = append(text, "")
				}
				text = append(text, its...)
			}
			return a.print(text...)
		}),
	}
}
