package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/query"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/client"
)

const getHelp = `List objects of the controller, all of a kind or those that are named.

With -o json or yaml: one object where one is named, else {"items": […]}. -o jsonpath=
prints a part of that, as kubectl does, -o name one KIND/ID on a line, and
-o custom-columns=NAME:.name,READY:.ready a table. --sort-by takes a JSONPath of one object.`

const watchHelp = `

With --watch the list is shown again at each change: in place on a terminal, else the
rows that have changed; with -o json one line of JSON for each change.`

func (a *app) get() *cobra.Command {
	return group(&cobra.Command{
		Use: "get", Short: "List instances, nodes, operations, volumes, tokens or replicas; show a join token, or the access to a cluster", Long: getHelp,
		Example: `  hitchctl get nodes --watch
  hitchctl get operations --instance 0b1a5c2e -o wide
  hitchctl get nodes -l role=worker,ready=False --sort-by lastSeenAt
  hitchctl get node storage_server -o json
  hitchctl get nodes -o custom-columns=NAME:.name,READY:.ready,SYSTEM:.status.facts.os`,
	},
		getCommand(a, instanceKind),
		getCommand(a, nodeKind),
		getCommand(a, operationKind),
		getCommand(a, volumeKind),
		getCommand(a, tokenKind),
		getCommand(a, replicaKind),
		a.joinToken(),
		a.clusterAccess(),
	)
}

// getting is one `get` of a kind.
type getting[T any] struct {
	kind[T]
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

func getCommand[T any](a *app, k kind[T]) *cobra.Command {
	g := getting[T]{kind: k, app: a}
	cmd := &cobra.Command{
		Use: k.plural() + " [ID]...", Aliases: k.aliases(k.plural()), Short: "List " + k.plural(), Long: getHelp + watchHelp,
		Example: "  hitchctl get " + k.plural() + " -o wide\n" +
			"  hitchctl get " + k.plural() + " -l " + selections(k.fields)[0] + " --no-headers\n" +
			"  hitchctl get " + k.plural() + " -o jsonpath='{.items[*].id}'",
		ValidArgsFunction: k.complete(a, false),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			g.args = args
			return g.do(ctx, c)
		}),
	}
	outputFlag(cmd, &g.output, asWide, asName, asColumns)
	cmd.Flags().BoolVar(&g.noHeaders, "no-headers", false, "leave out the head of the table")
	labelsToo := ""
	if k.labels != nil {
		labelsToo = ", or a label"
	}
	cmd.Flags().StringVarP(&g.selected, "selector", "l", "", "only those with name=value or name!=value, of "+strings.Join(query.FieldNames(k.fields), ", ")+labelsToo)
	cmd.Flags().StringVar(&g.sortBy, "sort-by", "", "order by this JSONPath of each object, such as {.id}")
	completeFlag(cmd, "selector", selections(k.fields)...)
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "keep showing them as they change")
	if k.all != "" {
		cmd.Flags().BoolVar(&g.all, "all", false, k.all)
	}
	if k.instance != nil {
		cmd.Flags().StringVar(&g.instance, "instance", "", "only those of this instance")
		_ = cmd.RegisterFlagCompletionFunc("instance", instanceKind.complete(a, false))
	}
	return cmd
}

// selections are the requirements that there are, for completion.
func selections[T any](fields []query.Field[T]) []string {
	var all []string
	for _, f := range fields {
		for _, value := range f.Values {
			all = append(all, f.Name+"="+value)
		}
	}
	return all
}

func (g *getting[T]) parse() (err error) {
	if g.selector, err = query.ParseSelector(g.selected, g.fields, g.labels); err != nil {
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
		if g.instance, err = instanceKind.resolve(ctx, c, g.instance); err != nil {
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
		fmt.Fprintln(g.app.err, "no "+g.plural())
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
		items = slices.DeleteFunc(items, func(t T) bool { return g.kind.instance(t) != g.instance })
	}
	wanted := map[string]bool{}
	for _, arg := range g.args {
		id, err := choose(g.kindName, arg, g.names(items))
		if err != nil && mustExist {
			return nil, err
		}
		wanted[id] = true
	}
	items = slices.DeleteFunc(items, func(t T) bool {
		return len(g.args) > 0 && !wanted[g.named(t).id] || !g.selector.Matches(t)
	})
	if g.order == nil {
		return items, nil
	}
	if err := query.Sort(g.singular, items, g.order); err != nil {
		return items, usageError{err}
	}
	return items, nil
}

// lines are the head, if there is one, and a line for each item.
func (g *getting[T]) lines(items []T) []string {
	if g.output == asName {
		lines := make([]string, len(items))
		for i, item := range items {
			lines[i] = g.singular + "/" + g.named(item).id
		}
		return lines
	}
	s := g.app.out
	columns, own := g.output.columns()
	if own || g.output == asWide {
		s = screen.Unlimited(s)
	}
	table := g.table(present.View{Wide: g.output == asWide, Now: g.app.now()}, items)
	if own {
		table = tableOf(columns, items)
	}
	table.Bare = g.noHeaders
	return s.Lines(table)
}

// tableOf is a table of columns that the user has put together.
func tableOf[T any](columns []query.Column, items []T) (table screen.Table) {
	for _, c := range columns {
		table.Columns = append(table.Columns, screen.Column{Title: c.Title})
	}
	for _, item := range items {
		var row []screen.Cell
		for _, c := range columns {
			row = append(row, screen.Text(c.Of(item, describe.None)))
		}
		table.Add(row...)
	}
	return table
}

// heads is how many of the lines are the head.
func (g *getting[T]) heads() int {
	if g.noHeaders || g.output == asName {
		return 0
	}
	return 1
}
