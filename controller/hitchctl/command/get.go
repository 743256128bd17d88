package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// resource is a kind of object that can be listed.
type resource[T any] struct {
	kind string // singular
	list func(ctx context.Context, c *client.Controller, instance string) ([]T, error)
	// poll watches the list; nil if the API cannot.
	poll func(c *client.Controller, instance string) follow.Poll
	name func(T) named
	// instance is the id of the instance that an object belongs to; nil if none does.
	instance func(T) string
	// quiet is the object without what changes all the time.
	quiet func(T) T
	table func(present.View, []T) screen.Table
}

const getHelp = `List objects of the controller, all of a kind or those that are named.

With -o json or yaml: one object where one is named, else {"items": […]}. With
--watch the list is shown again at each change: in place on a terminal, else the
rows that have changed; with -o json one line of JSON for each change.`

func (a *app) get() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get", Short: "List instances, nodes, operations, volumes or tokens", Long: getHelp,
		Example: `  hitchctl get nodes --watch
  hitchctl get operations --instance 0b1a5c2e -o wide
  hitchctl get node storage_server -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("say what to get: instances, nodes, operations, volumes or tokens")
		},
	}
	cmd.AddCommand(
		getCommand(a, resource[api.Instance]{
			kind: "instance",
			list: func(ctx context.Context, c *client.Controller, _ string) ([]api.Instance, error) {
				return listInstances(ctx, c)
			},
			poll:  func(c *client.Controller, _ string) follow.Poll { return pollInstances(c) },
			name:  func(i api.Instance) named { return named{id: i.ID} },
			table: present.View.Instances,
		}),
		getCommand(a, resource[api.Node]{
			kind: "node", list: listNodes, poll: pollNodes, name: nodeName,
			instance: func(n api.Node) string { return n.VnfInstanceID },
			quiet:    func(n api.Node) api.Node { n.LastSeenAt = nil; return n },
			table:    present.View.Nodes,
		}),
		getCommand(a, resource[api.Operation]{
			kind: "operation",
			list: func(ctx context.Context, c *client.Controller, _ string) ([]api.Operation, error) {
				return listOperations(ctx, c)
			},
			poll: func(c *client.Controller, _ string) follow.Poll { return pollOperations(c) },
			name: operationName, instance: func(o api.Operation) string { return o.VnfInstanceID },
			table: present.View.Operations,
		}),
		getCommand(a, resource[api.Volume]{
			kind: "volume",
			list: func(ctx context.Context, c *client.Controller, _ string) ([]api.Volume, error) {
				return listVolumes(ctx, c)
			},
			name:     volumeName,
			instance: func(v api.Volume) string { return v.VnfInstanceID },
			table:    present.View.Volumes,
		}),
		getCommand(a, resource[api.Token]{
			kind: "token",
			list: func(ctx context.Context, c *client.Controller, _ string) ([]api.Token, error) {
				return listTokens(ctx, c)
			},
			name:  tokenName,
			table: present.View.Tokens,
		}),
	)
	return cmd
}

// getting is one `get` of a kind.
type getting[T any] struct {
	resource[T]
	app      *app
	output   output
	watch    bool
	instance string // as the user named it, then its id
	args     []string
}

func getCommand[T any](a *app, r resource[T]) *cobra.Command {
	g := getting[T]{resource: r, app: a}
	cmd := &cobra.Command{
		Use: r.kind + "s [ID]...", Aliases: []string{r.kind}, Short: "List " + r.kind + "s", Long: getHelp,
		Example:           "  hitchctl get " + r.kind + "s\n  hitchctl get " + r.kind + "s -o wide",
		ValidArgsFunction: a.complete(r.kind, false),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			g.args = args
			return g.do(ctx, c)
		}),
	}
	outputFlag(cmd, &g.output, asTable, asWide, asJSON, asYAML)
	if r.poll != nil {
		cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "keep showing them as they change")
	}
	if r.instance != nil {
		cmd.Flags().StringVar(&g.instance, "instance", "", "only those of this instance")
	}
	return cmd
}

func (g *getting[T]) do(ctx context.Context, c *client.Controller) error {
	if g.instance != "" {
		var err error
		if g.instance, err = resolveInstance(ctx, c, g.instance); err != nil {
			return err
		}
	}
	if g.watch {
		return g.follow(ctx, c)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	items, err := g.list(ctx, c, g.instance)
	if err != nil {
		return err
	}
	if items, err = g.pick(items, true); err != nil {
		return err
	}
	if g.output == asJSON || g.output == asYAML {
		return g.app.encode(g.output, one(len(g.args), items))
	}
	if len(items) == 0 {
		fmt.Fprintln(g.app.err, "no "+g.kind+"s")
		return nil
	}
	return g.app.print(g.lines(items)...)
}

// pick keeps what the user asked for. While watching, an object that is not
// there may still come.
func (g *getting[T]) pick(items []T, mustExist bool) ([]T, error) {
	if g.instance != "" {
		items = slices.DeleteFunc(items, func(t T) bool { return g.resource.instance(t) != g.instance })
	}
	if len(g.args) == 0 {
		return items, nil
	}
	wanted := map[string]bool{}
	for _, arg := range g.args {
		id, err := choose(g.kind, arg, names(items, g.name))
		if err != nil && mustExist {
			return nil, err
		}
		wanted[id] = true
	}
	return slices.DeleteFunc(items, func(t T) bool { return !wanted[g.name(t).id] }), nil
}

func (g *getting[T]) lines(items []T) []string {
	s := g.app.out
	if g.output == asWide {
		s = screen.Unlimited(s)
	}
	return s.Lines(g.table(present.View{Wide: g.output == asWide, Now: g.app.now()}, items))
}
