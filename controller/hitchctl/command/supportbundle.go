package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/failover"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/controller/hitchctl/supportbundle"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/version"
)

func (a *app) supportBundle() *cobra.Command {
	return &cobra.Command{
		Use: "support-bundle FILE", Short: "Write what a colleague needs to find out what is wrong into one file",
		Long: fmt.Sprintf(`Write what a colleague needs to find out what is wrong into one file, a tar.gz: instances,
nodes with what they report, operations, volumes, events, the controller's settings,
metrics and last lines of its log, and the versions. It has no password, token or private
key; it has names and addresses. With - it goes to standard output.

Its index.txt says what is in it. Lists have at most %d objects, nodes that are not Ready
first, and the newest %d events. A part that cannot be had is named there, and the rest
still comes. A viewer gets no settings, metrics and log.`, supportbundle.MostItems, mostEvents),
		Example: "  hitchctl support-bundle nodehitch-support.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			return a.writeBundle(args[0], a.collect(ctx, c))
		}),
	}
}

// collecting is a bundle that is being filled.
type collecting struct {
	*supportbundle.Bundle
	first error // of what could not be had
}

// ask makes one call, whose failure leaves out these parts.
func ask[T any](ctx context.Context, b *collecting, parts string, call func(context.Context) (T, error)) (v T, ok bool) {
	ctx, cancel := withinCall(failover.AtOnce(ctx)) // what can be had is wanted now
	defer cancel()
	v, err := call(ctx)
	if err != nil {
		b.Missing(parts, err)
		if b.first == nil {
			b.first = err
		}
	}
	return v, err == nil
}

// addList adds a list of a kind.
func addList[T any](ctx context.Context, b *collecting, c *client.Controller, k kind[T], about string, order func([]T)) {
	name := k.plural() + ".jsonl"
	items, ok := ask(ctx, b, name, func(ctx context.Context) ([]T, error) { return k.list(ctx, c, scope{all: true}) })
	if !ok {
		return
	}
	if order != nil {
		order(items)
	}
	supportbundle.Items(b.Bundle, name, about, items, supportbundle.MostItems)
}

func (a *app) collect(ctx context.Context, c *client.Controller) *collecting {
	now := a.now().UTC()
	b := &collecting{Bundle: supportbundle.New(now)}
	b.Head = []string{"Support bundle of nodehitch, made " + now.Format(time.RFC3339), "hitchctl    " + version.Version, "controller  " + a.answering(ctx, b, c)}
	var away *client.Unreachable
	if errors.As(b.first, &away) {
		return b // each part would wait in vain
	}
	addList(ctx, b, c, instanceKind, "instances", nil)
	addList(ctx, b, c, nodeKind, "nodes with what they report, those first that are not Ready", notReadyFirst)
	addList(ctx, b, c, operationKind, "operations, the newest first", nil)
	addList(ctx, b, c, volumeKind, "volumes", nil)
	addList(ctx, b, c, tokenKind, "API tokens, without what proves them", nil)
	addList(ctx, b, c, replicaKind, "controllers that share the store", nil)
	most := mostEvents
	if list, ok := ask(ctx, b, "events.jsonl", func(ctx context.Context) (*api.EventList, error) {
		return listEvents(ctx, c, api.ListEventsParams{Limit: &most})
	}); ok {
		supportbundle.Items(b.Bundle, "events.jsonl", fmt.Sprintf("events, the oldest first; older ones are not in it if there are %d", most), list.Items, most)
	}
	if rollout, ok := ask(ctx, b, "agents.json", func(ctx context.Context) (*api.AgentRollout, error) {
		return client.Read[api.AgentRollout](c.GetAgents(ctx, nil))
	}); ok {
		b.JSON("agents.json", "versions of the agents, and their upgrade", rollout)
	}
	if d, ok := ask(ctx, b, "settings.json, metrics.txt, log.txt", func(ctx context.Context) (*api.Diagnostics, error) {
		return client.Read[api.Diagnostics](c.GetDiagnostics(ctx))
	}); ok {
		b.JSON("settings.json", "the controller's settings", d.Settings)
		b.Text("metrics.txt", "the controller's metrics", d.Metrics)
		b.Text("log.txt", fmt.Sprintf("the last %d lines of the controller's log; %d older ones since its start are not in it", len(d.Log), d.LogDropped), strings.Join(d.Log, "\n")+"\n")
	}
	return b
}

// answering is which controller answers, and whom it takes the caller for.
func (a *app) answering(ctx context.Context, b *collecting, c *client.Controller) string {
	text := "of an unknown version"
	if v, ok := ask(ctx, b, "the controller's version", func(ctx context.Context) (*api.Version, error) {
		return client.Read[api.Version](c.GetVersion(ctx))
	}); ok {
		text = v.Version
	}
	text += " at " + string(a.found.Server)
	if who, ok := ask(ctx, b, "the caller", func(ctx context.Context) (*api.Whoami, error) {
		return client.Read[api.Whoami](c.GetWhoami(ctx))
	}); ok {
		text += ", asked by " + who.Caller + " with the scope " + string(who.Scope)
	}
	return text
}

func notReadyFirst(nodes []api.Node) {
	slices.SortStableFunc(nodes, func(x, y api.Node) int {
		switch {
		case x.Ready == y.Ready:
			return 0
		case y.Ready:
			return -1
		}
		return 1
	})
}

// writeBundle writes the file and says what it lacks. Without a single part there is none.
func (a *app) writeBundle(path string, b *collecting) error {
	if b.Empty() {
		return b.first
	}
	write := b.Write
	if path == "-" {
		if err := write(a.out.Writer); err != nil {
			return err
		}
	} else {
		var size int64
		err := writeWhole(path, func(f *os.File) (err error) {
			if err = write(f); err == nil {
				size, err = f.Seek(0, io.SeekEnd)
			}
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.err, "%s: %s; its %s says what is in it\n", screen.Clean(path), describe.Size(size), supportbundle.Index)
	}
	for _, line := range b.Lacking() {
		a.warn(line)
	}
	return nil
}
