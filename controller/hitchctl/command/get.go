package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	// poll watches the list; nil where the API cannot.
	poll func(c *client.Controller, instance string) follow.Poll
	name func(T) named
	// instance is the id of the instance that an object belongs to; nil where none does.
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
			quiet:    func(n api.Node) api.Node { n.LastSeen = nil; return n },
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
		cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on showing them as they change")
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

// follow shows the list again at each change, until it is interrupted.
func (g *getting[T]) follow(ctx context.Context, c *client.Controller) error {
	show := g.appending()
	if g.output == asJSON || g.output == asYAML {
		show = g.encoding()
	} else if g.app.out.TTY {
		live := g.app.out.Live()
		defer live.Done()
		show = func(items []T) error { live.Draw(g.lines(items)); return nil }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := follow.Changes(ctx, g.poll(c, g.instance), func(u follow.Update[struct{ Items []T }]) {
		if u.Err != nil {
			g.app.warn(u.Err.Error() + " (trying again)")
			return
		}
		items, _ := g.pick(u.Content.Items, false)
		if err := show(items); err != nil {
			cancel(err)
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// encoding shows each change as one document.
func (g *getting[T]) encoding() func([]T) error {
	return func(items []T) error {
		if g.output == asYAML {
			if err := g.app.print("---"); err != nil {
				return err
			}
			return g.app.encode(asYAML, one(len(g.args), items))
		}
		text, err := json.Marshal(one(len(g.args), items))
		if err != nil {
			return err
		}
		return g.app.print(string(text))
	}
}

// appending shows the head once, then the rows that are new or have changed.
func (g *getting[T]) appending() func([]T) error {
	shown, first := map[string]string{}, true
	return func(items []T) error {
		table := g.lines(items)
		var lines []string
		if first {
			lines, first = table[:1], false
		}
		present := map[string]bool{}
		for i, item := range items {
			id := g.name(item).id
			present[id] = true
			if g.quiet != nil {
				item = g.quiet(item)
			}
			text, err := json.Marshal(item)
			if err != nil {
				return err
			}
			if shown[id] != string(text) {
				shown[id] = string(text)
				lines = append(lines, table[i+1])
			}
		}
		for id := range shown {
			if !present[id] {
				delete(shown, id)
				lines = append(lines, id+" is gone")
			}
		}
		return g.app.print(lines...)
	}
}

func pollInstances(c *client.Controller) follow.Poll {
	return func(ctx context.Context, version, hold string) (*http.Response, error) {
		return c.ListInstances(ctx, &api.ListInstancesParams{Wait: orNil(hold), IfNoneMatch: orNil(version)})
	}
}

func pollNodes(c *client.Controller, instance string) follow.Poll {
	return func(ctx context.Context, version, hold string) (*http.Response, error) {
		return c.ListNodes(ctx, &api.ListNodesParams{VnfInstanceID: orNil(instance), Wait: orNil(hold), IfNoneMatch: orNil(version)})
	}
}

func pollOperations(c *client.Controller) follow.Poll {
	return func(ctx context.Context, version, hold string) (*http.Response, error) {
		return c.ListOperations(ctx, &api.ListOperationsParams{Wait: orNil(hold), IfNoneMatch: orNil(version)})
	}
}
