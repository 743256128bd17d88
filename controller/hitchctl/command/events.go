package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const eventsHelp = `Show what has happened, oldest first: to instances, operations, nodes, volumes, API tokens
and upgrades of agents, when, who caused it and why. The controller keeps 30 days at most.

Without --since these are the newest. --since takes an age, such as 5m, 2h or 3d, or the
sequence of an event, which -o json shows. With --watch events are shown as they come; with
-o json one line of JSON for each.`

// events are the flags of `events`.
type events struct {
	app                    *app
	output                 output
	watch                  bool
	instance, node, volume string
	kind                   string
	since                  string
	limit                  int
}

func (a *app) events() *cobra.Command {
	e := events{app: a}
	cmd := &cobra.Command{
		Use: "events", Short: "Show what has happened, to what, when and by whom", Long: eventsHelp, Args: cobra.NoArgs,
		Example: `  hitchctl events --watch
  hitchctl events --node storage_server
  hitchctl events --since 2h --type Revoked
  hitchctl events --instance 0b1a5c2e -o json`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              a.withController(func(ctx context.Context, c *client.Controller, _ []string) error { return e.do(ctx, c) }),
	}
	outputFlag(cmd, &e.output)
	cmd.Flags().BoolVarP(&e.watch, "watch", "w", false, "keep showing them as they come")
	cmd.Flags().StringVar(&e.instance, "instance", "", "only those of this instance")
	cmd.Flags().StringVar(&e.node, "node", "", "only those about this node")
	cmd.Flags().StringVar(&e.volume, "volume", "", "only those about this volume")
	cmd.Flags().StringVar(&e.kind, "type", "", "only those of this type, such as Revoked")
	cmd.Flags().StringVar(&e.since, "since", "", "only those that are younger, such as 5m, 2h or 3d, or that follow this sequence")
	cmd.Flags().IntVar(&e.limit, "limit", 100, "without --since: how many of the newest")
	_ = cmd.RegisterFlagCompletionFunc("instance", instanceKind.complete(a, false))
	_ = cmd.RegisterFlagCompletionFunc("node", nodeKind.complete(a, false))
	_ = cmd.RegisterFlagCompletionFunc("volume", volumeKind.complete(a, false))
	return cmd
}

func (e *events) do(ctx context.Context, c *client.Controller) error {
	if e.limit < 1 || e.limit > mostEvents {
		return usagef("--limit %d: expected a number from 1 to %d", e.limit, mostEvents)
	}
	params, err := e.params(ctx, c)
	if err != nil {
		return err
	}
	age, err := e.from(&params)
	if err != nil {
		return err
	}
	if e.watch && age == 0 {
		return e.follow(ctx, c, params)
	}
	within, cancel := withinCall(ctx)
	defer cancel()
	list, err := listEvents(within, c, params)
	if err != nil {
		return err
	}
	if age > 0 {
		e.keepYounger(list, age)
	}
	if e.watch {
		if err := e.show(list.Items); err != nil {
			return err
		}
		params.Since = &list.Sequence
		return e.follow(ctx, c, params)
	}
	if e.output != asTable {
		return e.app.encode(e.output, list)
	}
	return e.app.print(present.Events(e.app.out, list.Items)...)
}

// params is which events are asked for.
func (e *events) params(ctx context.Context, c *client.Controller) (params api.ListEventsParams, err error) {
	for _, of := range []struct {
		text    string
		resolve func(context.Context, *client.Controller, string) (string, error)
		id      **string
	}{{e.instance, instanceKind.resolve, &params.VnfInstanceID}, {e.node, nodeKind.resolve, &params.NodeID}, {e.volume, volumeKind.resolve, &params.VolumeID}} {
		if of.text == "" {
			continue
		}
		id, err := of.resolve(ctx, c, of.text)
		if err != nil {
			return params, err
		}
		*of.id = &id
	}
	if e.kind != "" {
		params.Type = (*api.EventType)(&e.kind)
	}
	params.Limit = &e.limit
	return params, nil
}

// from asks for the events that follow a sequence, or for as many as there are to find those of an
// age, which the API does not know.
func (e *events) from(params *api.ListEventsParams) (age time.Duration, err error) {
	sequence, err := strconv.ParseInt(e.since, 10, 64)
	switch {
	case e.since == "":
		return 0, nil
	case err == nil && sequence > 0:
		params.Since = &sequence
		return 0, nil
	}
	if age, err = parseSpan(e.since); err != nil || age == 0 {
		return 0, usagef("--since %s: expected an age such as 5m, 2h or 3d, or a sequence, which is above 0", e.since)
	}
	most := mostEvents
	params.Limit = &most
	return age, nil
}

// keepYounger leaves the events that are younger than the age.
func (e *events) keepYounger(list *api.EventList, age time.Duration) {
	n, begin := len(list.Items), e.app.now().Add(-age)
	list.Items = slices.DeleteFunc(list.Items, func(event api.Event) bool { return event.At.Before(begin) })
	if n == mostEvents && len(list.Items) == n {
		e.app.warn(fmt.Sprintf("only the newest %d events are shown; --instance, --node, --volume or --type leave out others", n))
	}
}

// mostEvents is the most that one answer has.
const mostEvents = 10_000

// listEvents is the newest events, or all since a sequence.
func listEvents(ctx context.Context, c *client.Controller, params api.ListEventsParams) (*api.EventList, error) {
	if params.Since == nil {
		return client.Read[api.EventList](c.ListEvents(ctx, &params))
	}
	most, all := mostEvents, &api.EventList{Items: []api.Event{}}
	for params.Limit = &most; ; params.Since = &all.Sequence {
		list, err := client.Read[api.EventList](c.ListEvents(ctx, &params))
		if err != nil {
			return nil, err
		}
		all.Items, all.Sequence = slices.Concat(all.Items, list.Items), list.Sequence
		if len(list.Items) < most {
			return all, nil
		}
	}
}

// follow shows events as they come, until it is interrupted.
func (e *events) follow(ctx context.Context, c *client.Controller, params api.ListEventsParams) error {
	most := mostEvents
	return watch(ctx, e.app, func(ctx context.Context, _, hold string) (*http.Response, error) {
		params.Wait = orNil(hold)
		return c.ListEvents(ctx, &params)
	}, func(list *api.EventList) error {
		params.Since, params.Limit = &list.Sequence, &most
		return e.show(list.Items)
	})
}

// show prints events that have come.
func (e *events) show(items []api.Event) error {
	if e.output == asTable {
		return e.app.print(present.Events(e.app.out, items)...)
	}
	for _, item := range items {
		text, err := json.Marshal(item)
		if err == nil && e.output != asJSON {
			text, err = encoded(e.output, item)
		}
		if err == nil {
			err = e.app.print(string(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// happened is the newest events of an instance, and of one object of it if its id is given:
// none if the controller is older than events.
func happened(ctx context.Context, c *client.Controller, params api.ListEventsParams) ([]api.Event, error) {
	list, err := listEvents(ctx, c, params)
	if client.Status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
