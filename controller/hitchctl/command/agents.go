package command

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const agentsHelp = `Upgrade the agents of all nodes to one that the controller carries, in waves: at most
agentUpgrade.maxUnavailable nodes at a time, in the order of their ids. A wave stops if
a node rolls the new agent back.`

func (a *app) agents() *cobra.Command {
	return group(&cobra.Command{
		Use: "agents", Short: "Upgrade the agents of the nodes, and see how far that is", Long: agentsHelp,
		Example: "  hitchctl agents status --watch\n  hitchctl agents upgrade",
	}, a.agentsStatus(), a.agentsUpgrade(), a.agentsPause())
}

func (a *app) agentsStatus() *cobra.Command {
	var o output
	var watch bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show which agents there are and how far their upgrade is", Args: cobra.NoArgs,
		Long: `Show how many nodes have which agent, how far the upgrade is, why it has stopped, and
the nodes in flight.

With --watch it is shown again at each change: in place on a terminal, else one below
the other; with -o json one line of JSON for each change.`,
		Example:           "  hitchctl agents status\n  hitchctl agents status --watch\n  hitchctl agents status -o jsonpath='{.state}'",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withController(func(ctx context.Context, c *client.Controller, _ []string) error {
			if watch {
				return a.followAgents(ctx, c, o)
			}
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return a.showAgents(o)(client.Read[api.AgentRollout](c.GetAgents(ctx, nil)))
		}),
	}
	outputFlag(cmd, &o)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep showing it as it changes")
	return cmd
}

func (a *app) agentsUpgrade() *cobra.Command {
	var o output
	var version string
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Begin an upgrade of the agents, or continue it", Args: cobra.NoArgs,
		Long: `Upgrade the agents to the controller's version, or to another one that it carries. An
upgrade that was paused or has stopped continues, without the nodes that rolled the
version back.

Nodes with a newer agent keep it, unless --version names the older one.`,
		Example:           "  hitchctl agents upgrade\n  hitchctl agents upgrade --version v0.4.0",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.quick(func(ctx context.Context, c *client.Controller, _ []string) error {
			return a.showAgents(o)(client.Read[api.AgentRollout](c.UpgradeAgents(ctx, api.AgentUpgradeRequest{Version: version})))
		}),
	}
	cmd.Flags().StringVar(&version, "version", "", "version of the agents, also an older one (default the controller's)")
	_ = cmd.RegisterFlagCompletionFunc("version", a.completeCarried)
	outputFlag(cmd, &o)
	return cmd
}

func (a *app) agentsPause() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "pause", Short: "Begin no further upgrade of an agent until `hitchctl agents upgrade`", Args: cobra.NoArgs,
		Long: `Begin no further upgrade of an agent until "hitchctl agents upgrade". A node that has
switched to its new agent already continues.`,
		Example:           "  hitchctl agents pause",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.quick(func(ctx context.Context, c *client.Controller, _ []string) error {
			return a.showAgents(o)(client.Read[api.AgentRollout](c.PauseAgents(ctx)))
		}),
	}
	outputFlag(cmd, &o)
	return cmd
}

// showAgents prints what a call has answered.
func (a *app) showAgents(o output) func(*api.AgentRollout, error) error {
	return func(r *api.AgentRollout, err error) error {
		if err != nil {
			return err
		}
		if o != asTable {
			return a.encode(o, r)
		}
		return a.print(present.Agents(a.out, *r, a.now())...)
	}
}

// followAgents shows the agents again at each change, until it is interrupted.
func (a *app) followAgents(ctx context.Context, c *client.Controller, o output) error {
	show := func(r *api.AgentRollout) error { return a.showAgents(o)(r, nil) }
	switch {
	case o == asJSON:
		show = func(r *api.AgentRollout) error {
			text, err := json.Marshal(r)
			if err != nil {
				return err
			}
			return a.print(string(text))
		}
	case o == asTable && a.out.TTY:
		live := a.out.Live()
		defer live.Done()
		show = func(r *api.AgentRollout) error {
			live.Draw(present.Agents(a.out, *r, a.now()))
			return nil
		}
	}
	return watch(ctx, a, func(ctx context.Context, version, hold string) (*http.Response, error) {
		return c.GetAgents(ctx, &api.GetAgentsParams{Wait: orNil(hold), IfNoneMatch: orNil(version)})
	}, show)
}

// completeCarried offers the versions of the agents that the controller carries.
func (a *app) completeCarried(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.controller()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	var versions []string
	if r, err := client.Read[api.AgentRollout](c.GetAgents(ctx, nil)); err == nil {
		for _, carried := range r.Carried {
			versions = append(versions, carried.Version)
		}
	}
	return versions, cobra.ShellCompDirectiveNoFileComp
}
