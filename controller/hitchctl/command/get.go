package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/query"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/controller/wording"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// scope is which objects of a kind are listed.
type scope struct {
	instance string // its id, "" for every one
	all      bool   // also nodes that have left
}

func (s scope) nodes() *api.ListNodesParams {
	params := &api.ListNodesParams{VnfInstanceID: orNil(s.instance)}
	if s.all {
		params.All = &s.all
	}
	return params
}

// resource is a kind of object that can be listed.
type resource[T any] struct {
	kind string // singular
	list func(context.Context, *client.Controller, scope) ([]T, error)
	// poll watches the list; nil if the API cannot.
	poll func(*client.Controller, scope) follow.Poll
	// all is what --all adds, "" if there is no more.
	all  string
	name func(T) named
	// instance is the id of the instance that an object belongs to; nil if none does.
	instance func(T) string
	// labels are what -l selects by.
	labels []query.Label[T]
	// quiet is the object without what changes all the time.
	quiet func(T) T
	table func(present.View, []T) screen.Table
}

const getHelp = `List objects of the controller, all of a kind or those that are named.

With -o json or yaml: one object where one is named, else {"items": […]}. -o jsonpath=
prints a part of that, as kubectl does, -o name one KIND/ID on a line. --sort-by takes
a JSONPath of one object.`

const watchHelp = `

With --watch the list is shown again at each change: in place on a terminal, else the
rows that have changed; with -o json one line of JSON for each change.`

func (a *app) get() *cobra.Command {
	return group(&cobra.Command{
		Use: "get", Short: "List instances, nodes, operations, volumes, tokens or replicas; show the access to a cluster", Long: getHelp,
		Example: `  hitchctl get nodes --watch
  hitchctl get operations --instance 0b1a5c2e -o wide
  hitchctl get nodes -l role=worker,ready=False --sort-by lastSeenAt
  hitchctl get node storage_server -o json`,
	},
		getCommand(a, resource[api.Instance]{
			kind: "instance",
			list: func(ctx context.Context, c *client.Controller, _ scope) ([]api.Instance, error) {
				return listInstances(ctx, c)
			},
			poll: func(c *client.Controller, _ scope) follow.Poll { return pollInstances(c) },
			name: instanceName,
			labels: []query.Label[api.Instance]{
				{Name: "kind", Values: texts(api.KubernetesCluster, api.PrivateRegistry), Of: func(i api.Instance) string { return string(i.Kind) }},
				{Name: "state", Values: texts(api.NotInstantiated, api.Instantiated), Of: func(i api.Instance) string { return string(i.State) }},
			},
			table: present.View.Instances,
		}),
		getCommand(a, resource[api.Node]{
			kind: "node", list: listNodes, poll: pollNodes, name: nodeName,
			all:      "also nodes that no topology names and whose identity was revoked more than a day ago",
			instance: func(n api.Node) string { return n.VnfInstanceID },
			labels: []query.Label[api.Node]{
				{Name: "role", Values: roles, Of: func(n api.Node) string { return string(n.Role) }},
				{Name: "state", Values: nodeStates, Of: func(n api.Node) string { return string(n.State) }},
				{Name: "ready", Values: []string{"True", "False"}, Of: func(n api.Node) string { return wording.Truth(n.Ready) }},
			},
			quiet: func(n api.Node) api.Node { n.LastSeenAt = nil; return n },
			table: present.View.Nodes,
		}),
		getCommand(a, resource[api.Operation]{
			kind: "operation",
			list: func(ctx context.Context, c *client.Controller, _ scope) ([]api.Operation, error) {
				return listOperations(ctx, c)
			},
			poll: func(c *client.Controller, _ scope) follow.Poll { return pollOperations(c) },
			name: operationName, instance: func(o api.Operation) string { return o.VnfInstanceID },
			labels: []query.Label[api.Operation]{
				{Name: "operation", Values: operations, Of: func(o api.Operation) string { return string(o.Operation) }},
				{Name: "phase", Values: phases, Of: func(o api.Operation) string { return string(o.Phase) }},
				{Name: "state", Values: texts(api.Processing, api.Completed, api.Failed), Of: func(o api.Operation) string { return string(o.State) }},
			},
			table: present.View.Operations,
		}),
		getCommand(a, resource[api.Volume]{
			kind: "volume",
			list: func(ctx context.Context, c *client.Controller, _ scope) ([]api.Volume, error) {
				return listVolumes(ctx, c)
			},
			name:     volumeName,
			instance: func(v api.Volume) string { return v.VnfInstanceID },
			labels: []query.Label[api.Volume]{
				{Name: "permit", Values: permitStates, Of: func(v api.Volume) string { return string(v.PermitState) }},
			},
			table: present.View.Volumes,
		}),
		getCommand(a, resource[api.Token]{
			kind: "token",
			list: func(ctx context.Context, c *client.Controller, _ scope) ([]api.Token, error) {
				return listTokens(ctx, c)
			},
			name: tokenName,
			labels: []query.Label[api.Token]{
				{Name: "scope", Values: scopes, Of: func(t api.Token) string { return string(t.Scope) }},
			},
			table: present.View.Tokens,
		}),
		getCommand(a, resource[api.Replica]{
			kind: "replica",
			list: func(ctx context.Context, c *client.Controller, _ scope) ([]api.Replica, error) {
				return listReplicas(ctx, c)
			},
			poll: func(c *client.Controller, _ scope) follow.Poll { return pollReplicas(c) },
			name: replicaName,
			labels: []query.Label[api.Replica]{
				{Name: "state", Values: texts(api.ReplicaWriter, api.ReplicaDoor, api.ReplicaStandby), Of: func(r api.Replica) string { return string(r.State) }},
			},
			quiet: api.Replica.Quiet,
			table: present.View.Replicas,
		}),
		a.clusterAccess(),
	)
}

// getting is one `get` of a kind.
type getting[T any] struct {
	resource[T]
	app       *app
	output    output
	watch     bool
	noHeaders bool
	selected  string
	sortBy    string
	instance  string // as the user named it, then its id
	all       bool
	args      []string

	selector query.Selector[T]
	order    *query.Path // nil for that of the controller
}

func getCommand[T any](a *app, r resource[T]) *cobra.Command {
	g := getting[T]{resource: r, app: a}
	help := getHelp
	if r.poll != nil {
		help += watchHelp
	}
	cmd := &cobra.Command{
		Use: r.kind + "s [ID]...", Aliases: otherNames(r.kind, r.kind+"s"), Short: "List " + r.kind + "s", Long: help,
		Example: "  hitchctl get " + r.kind + "s -o wide\n" +
			"  hitchctl get " + r.kind + "s -l " + selections(r.labels)[0] + " --no-headers\n" +
			"  hitchctl get " + r.kind + "s -o jsonpath='{.items[*].id}'",
		ValidArgsFunction: a.complete(r.kind, false),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			g.args = args
			return g.do(ctx, c)
		}),
	}
	outputFlag(cmd, &g.output, asWide, asName)
	cmd.Flags().BoolVar(&g.noHeaders, "no-headers", false, "leave out the head of the table")
	cmd.Flags().StringVarP(&g.selected, "selector", "l", "", "only those with name=value or name!=value, of "+strings.Join(query.LabelNames(r.labels), ", "))
	cmd.Flags().StringVar(&g.sortBy, "sort-by", "", "order by this JSONPath of each object, such as {.id}")
	completeFlag(cmd, "selector", selections(r.labels)...)
	if r.poll != nil {
		cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "keep showing them as they change")
	}
	if r.all != "" {
		cmd.Flags().BoolVar(&g.all, "all", false, r.all)
	}
	if r.instance != nil {
		cmd.Flags().StringVar(&g.instance, "instance", "", "only those of this instance")
		_ = cmd.RegisterFlagCompletionFunc("instance", a.complete("instance", false))
	}
	return cmd
}

// selections are the requirements that there are, for completion.
func selections[T any](labels []query.Label[T]) []string {
	var all []string
	for _, l := range labels {
		for _, value := range l.Values {
			all = append(all, l.Name+"="+value)
		}
	}
	return all
}

func (g *getting[T]) parse() (err error) {
	if g.selector, err = query.ParseSelector(g.selected, g.labels); err != nil {
		return usagef("-l %s: %w", g.selected, err)
	}
	if g.sortBy == "" {
		return nil
	}
	if g.order, err = query.ParsePath(g.sortBy); err != nil {
		return usagef("--sort-by: %w", err)
	}
	return nil
}

func (g *getting[T]) do(ctx context.Context, c *client.Controller) error {
	if err := g.parse(); err != nil {
		return err
	}
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
	items, err := g.list(ctx, c, g.scope())
	if err != nil {
		return err
	}
	if items, err = g.pick(items, true); err != nil {
		return err
	}
	if g.output.forPrograms() {
		return g.app.encode(g.output, one(len(g.args), items))
	}
	if len(items) == 0 {
		fmt.Fprintln(g.app.err, "no "+g.kind+"s")
		return nil
	}
	return g.app.print(g.lines(items)...)
}

// scope: an object that is named is found wherever it is.
func (g *getting[T]) scope() scope {
	return scope{instance: g.instance, all: g.all || len(g.args) > 0}
}

// pick keeps what the user asked for. While watching, an object that is not
// there may still come.
func (g *getting[T]) pick(items []T, mustExist bool) ([]T, error) {
	if g.instance != "" {
		items = slices.DeleteFunc(items, func(t T) bool { return g.resource.instance(t) != g.instance })
	}
	wanted := map[string]bool{}
	for _, arg := range g.args {
		id, err := choose(g.kind, arg, names(items, g.name))
		if err != nil && mustExist {
			return nil, err
		}
		wanted[id] = true
	}
	items = slices.DeleteFunc(items, func(t T) bool {
		return len(g.args) > 0 && !wanted[g.name(t).id] || !g.selector.Matches(t)
	})
	if g.order == nil {
		return items, nil
	}
	return items, query.Sort(g.kind, items, g.order)
}

// lines are the head, if there is one, and a line for each item.
func (g *getting[T]) lines(items []T) []string {
	if g.output == asName {
		lines := make([]string, len(items))
		for i, item := range items {
			lines[i] = g.kind + "/" + g.name(item).id
		}
		return lines
	}
	s := g.app.out
	if g.output == asWide {
		s = screen.Unlimited(s)
	}
	table := g.table(present.View{Wide: g.output == asWide, Now: g.app.now()}, items)
	table.Bare = g.noHeaders
	return s.Lines(table)
}

// heads is how many of the lines are the head.
func (g *getting[T]) heads() int {
	if g.noHeaders || g.output == asName {
		return 0
	}
	return 1
}
