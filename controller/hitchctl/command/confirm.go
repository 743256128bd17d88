package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) confirm() *cobra.Command {
	return group(&cobra.Command{
		Use: "confirm", Short: "After a restore, trust the nodes of an instance or an API token again",
		Example: "  hitchctl confirm instance 0b1a5c2e\n  hitchctl confirm token alice",
	}, a.confirmInstance(), a.confirmToken())
}

// confirmation is what the user of `confirm instance` has given.
type confirmation struct {
	all, yes bool
	output   output
}

func (a *app) confirmInstance() *cobra.Command {
	var f confirmation
	cmd := &cobra.Command{
		Use: "instance INSTANCE | --all", Aliases: instanceKind.aliases("instance"), Short: "After a restore, let the nodes of an instance in again",
		Long: `After a restore, let the nodes of an instance in again. The restored backup has
forgotten what happened since: revoke again first what was revoked (hitchctl node
revoke works before, also for servers that have not enrolled), and apply the present
topology. hitchctl shows what will be trusted, and asks; --yes answers.

Wait until SEEN tells that the agents have called, which takes a minute: certificates
that were renewed after the backup are known by then. A node that comes later with
one of those needs hitchctl node reenroll.

Volumes are not confirmed with it. One that the backup knows as not formatted may
have been since: it is formatted only after hitchctl volume reformat.`,
		Example:           "  hitchctl confirm instance 0b1a5c2e\n  hitchctl confirm instance --all --yes",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: instanceKind.complete(a, true),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			if f.all == (len(args) == 1) {
				return usagef("name one instance, or --all of them")
			}
			return a.confirmRestored(ctx, c, strings.Join(args, ""), f)
		}),
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "every instance that waits for a confirmation")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	outputFlag(cmd, &f.output)
	return cmd
}

func (a *app) confirmRestored(ctx context.Context, c *client.Controller, name string, f confirmation) error {
	list, err := waitingInstances(ctx, c, name)
	if err != nil {
		return err
	}
	if err := a.showRestored(ctx, c, list); err != nil {
		return err
	}
	if len(list) > 0 {
		if err := a.agreed(ctx, question(len(list)), f.yes); err != nil {
			return err
		}
	}
	done := []api.Instance{}
	for _, i := range list {
		confirmed, err := client.Read[api.Instance](c.ConfirmInstance(ctx, i.ID))
		if err != nil {
			return err
		}
		done = append(done, *confirmed)
		if f.output == asTable {
			if err := a.print(instanceTitle(&i) + " confirmed"); err != nil {
				return err
			}
		}
	}
	switch {
	case f.output != asTable && name != "" && len(done) == 1:
		return a.encode(f.output, done[0])
	case f.output != asTable:
		return a.encode(f.output, one(0, done))
	case len(done) == 0:
		return a.print("nothing waits for a confirmation")
	}
	return nil
}

func question(instances int) string {
	if instances == 1 {
		return "Let the nodes of this instance in again?"
	}
	return fmt.Sprintf("Let the nodes of these %d instances in again?", instances)
}

// waitingInstances are those that wait, of all or of the named one.
func waitingInstances(ctx context.Context, c *client.Controller, name string) ([]api.Instance, error) {
	all, err := instanceKind.list(ctx, c, scope{})
	if err != nil {
		return nil, err
	}
	if name != "" {
		id, err := choose(instanceKind.kindName, name, instanceKind.names(all))
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(i api.Instance) bool { return i.ID != id })
	}
	return slices.DeleteFunc(all, func(i api.Instance) bool { return !i.Unconfirmed }), nil
}

// showRestored shows what will be trusted.
func (a *app) showRestored(ctx context.Context, c *client.Controller, list []api.Instance) error {
	volumes, err := volumeKind.list(ctx, c, scope{})
	if err != nil {
		return err
	}
	for _, i := range list {
		nodes, err := nodeKind.list(ctx, c, scope{instance: i.ID, all: true})
		if err != nil {
			return err
		}
		its := slices.DeleteFunc(slices.Clone(volumes), func(v api.Volume) bool { return v.VnfInstanceID != i.ID })
		for _, line := range present.Restored(a.err, i, nodes, its, a.now()) {
			fmt.Fprintln(a.err, line)
		}
	}
	return nil
}

// agreed asks a question that is answered with y, unless --yes has answered it.
func (a *app) agreed(ctx context.Context, question string, yes bool) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(int(a.in.Fd())) || !a.err.TTY {
		return usagef("%s There is no terminal to ask on; --yes answers", question)
	}
	fmt.Fprint(a.err, question+" [y/N] ")
	answer, err := readLine(ctx, a)
	if err != nil {
		return err
	}
	if !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return fmt.Errorf("not confirmed: the answer is %q; nothing was changed", answer)
	}
	return nil
}

func (a *app) confirmToken() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "token TOKEN | --all", Aliases: tokenKind.aliases("token"), Short: "After a restore, make an API token good again",
		Long: `After a restore, make an API token of the backup good again. A token that was revoked
after the backup is in it: confirm those that you know, delete the others.`,
		Example:           "  hitchctl confirm token alice\n  hitchctl confirm token --all",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: tokenKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			if all == (len(args) == 1) {
				return usagef("name one token, or --all of them")
			}
			ids, err := waitingTokens(ctx, c, args)
			if err != nil {
				return err
			}
			for _, id := range ids {
				token, err := client.Read[api.Token](c.ConfirmToken(ctx, id))
				if err != nil {
					return err
				}
				if err := a.print("token " + token.ID + " (" + token.Name + ") confirmed"); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "every token that waits for a confirmation")
	return cmd
}

func waitingTokens(ctx context.Context, c *client.Controller, args []string) (ids []string, err error) {
	if len(args) == 1 {
		token, err := tokenKind.find(ctx, c, args[0])
		return []string{token.ID}, err
	}
	tokens, err := tokenKind.list(ctx, c, scope{})
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if t.Unconfirmed {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}
