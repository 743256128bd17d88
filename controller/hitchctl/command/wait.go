package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/nearest"
)

const waitHelp = `Wait for a node, an instance or an operation, and show the progress of the nodes: their
steps in place on a terminal, else one line for each step. A controller that does not
answer for a moment does not end the wait. --timeout ends the wait and nothing else:
an operation has a deadline of its own ("hitchctl operate --deadline").

Exit codes: 0 condition met; 1 impossible or timed out.`

// waitFlags are those of every wait.
type waitFlags struct {
	condition string
	timeout   time.Duration
	output    output
}

func (a *app) wait() *cobra.Command {
	return group(&cobra.Command{
		Use: "wait", Short: "Wait for a node, an instance or an operation", Long: waitHelp,
		Example: `  hitchctl wait node storage_server --for VolumesMounted
  hitchctl wait instance 0b1a5c2e --timeout 10m
  hitchctl wait operation 0b1a5c2e/3`,
	},
		waitCommand(a, nodeKind, "Ready, Enrolled, or a condition such as VolumesMounted or ExportsServed=False", nodeConditions(), a.waitNode),
		waitCommand(a, instanceKind, "Ready (every node of its topology), or Instantiated", instanceConditions, a.waitInstance),
		waitCommand(a, operationKind, "", nil, a.waitOperationNamed),
	)
}

// instanceConditions are what --for takes of an instance.
var instanceConditions = []string{api.ConditionReady, conditionInstantiated}

const conditionInstantiated = "Instantiated"

// nodeConditions are what --for takes of a node, without the status that may follow.
func nodeConditions() []string {
	return append([]string{api.ConditionReady, string(api.NodeEnrolled)}, api.ConditionTypes()...)
}

// waitCommand is `wait` for one kind; conditions are what --for takes, the first by default.
func waitCommand[T any](a *app, k kind[T], meaning string, conditions []string, do func(context.Context, *client.Controller, string, waitFlags) error) *cobra.Command {
	var f waitFlags
	cmd := &cobra.Command{
		Use: k.singular + " ID", Aliases: k.aliases(k.singular), Short: "Wait for " + k.withArticle(), Long: waitHelp,
		Example: "  hitchctl wait " + k.singular + " 4a0dbb52 --timeout 10m", Args: cobra.ExactArgs(1),
		ValidArgsFunction: k.complete(a, true),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			return do(ctx, c, args[0], f)
		}),
	}
	if len(conditions) > 0 {
		cmd.Flags().StringVar(&f.condition, "for", conditions[0], "what to wait for: "+meaning)
		completeFlag(cmd, "for", conditions...)
	}
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long to wait; 0 is no limit")
	outputFlag(cmd, &f.output)
	return cmd
}

// display is where progress goes: away from what programs read.
func (a *app) display(o output) *screen.Screen {
	if o.forPrograms() {
		return a.err
	}
	return a.out
}

func (a *app) waitNode(ctx context.Context, c *client.Controller, arg string, f waitFlags) error {
	id, err := nodeKind.resolve(ctx, c, arg)
	if err != nil {
		return err
	}
	n, err := client.Read[api.Node](c.GetNode(ctx, id, nil))
	if err != nil {
		return err
	}
	is, err := nodeCondition(f.condition, *n)
	if err != nil {
		return err
	}
	this := func(s waitState) []api.Node {
		return slices.DeleteFunc(slices.Clone(s.nodes), func(n api.Node) bool { return n.ID != id })
	}
	w := waiter{
		app: a, display: a.display(f.output), timeout: f.timeout, title: n.Name + " to be " + f.condition,
		watch: []watcher{watchNodes(c, n.VnfInstanceID)}, shown: this,
		done: func(s waitState) (bool, error) {
			if nodes := this(s); len(nodes) > 0 {
				return is(nodes[0]), nil
			}
			if s.known.nodes {
				return true, fmt.Errorf("node %s is gone", n.Name)
			}
			return false, nil
		},
		result: func(_ waitState, took time.Duration) string {
			return fmt.Sprintf("%s is %s, after %s", screen.Clean(n.Name), f.condition, describe.Age(took))
		},
	}
	s, err := w.run(ctx)
	return a.answer(f.output, err, func() any { return this(s)[0] })
}

// answer prints the object for programs.
func (a *app) answer(o output, err error, object func() any) error {
	if err != nil || o == asTable {
		return err
	}
	return a.encode(o, object())
}

// nodeCondition reads --for: Ready, Enrolled, a condition, or a condition=status. A newer
// agent may report conditions that are not known here.
func nodeCondition(text string, of api.Node) (func(api.Node) bool, error) {
	name, status, given := strings.Cut(text, "=")
	want := api.ConditionStatus(status)
	if !given {
		want = api.ConditionTrue
	}
	known := nodeConditions()
	switch {
	case !want.Valid():
		return nil, usagef("--for %s: %w", text, nearest.Unknown("status", status, []string{"True", "False", "Unknown"}))
	case !slices.Contains(known, name) && of.Status.Condition(name) == nil:
		return nil, usagef("--for %s: %w", text, nearest.Unknown("condition", name, known))
	case name == api.ConditionReady:
		return func(n api.Node) bool { return n.Ready == (want == api.ConditionTrue) }, nil
	case name == string(api.NodeEnrolled):
		return func(n api.Node) bool { return (n.State == api.NodeEnrolled) == (want == api.ConditionTrue) }, nil
	}
	return func(n api.Node) bool {
		c := n.Status.Condition(name)
		return c != nil && c.Status == want && n.Status.ObservedDigest == n.Digest && n.Status.ObservedGeneration == n.Generation
	}, nil
}

func (a *app) waitInstance(ctx context.Context, c *client.Controller, arg string, f waitFlags) error {
	if !slices.Contains(instanceConditions, f.condition) {
		return usagef("--for %s: %w", f.condition, nearest.Unknown("condition", f.condition, instanceConditions))
	}
	id, err := instanceKind.resolve(ctx, c, arg)
	if err != nil {
		return err
	}
	instance, err := client.Read[api.Instance](c.GetInstance(ctx, id, nil))
	if err != nil {
		return err
	}
	name := "instance " + describe.InstanceName(instance.Name, id)
	w := waiter{
		app: a, display: a.display(f.output), timeout: f.timeout,
		title: name + " to be " + f.condition,
		watch: []watcher{watchInstances(c), watchNodes(c, id)},
		shown: func(s waitState) []api.Node { return membersOf(s, id) },
		done: func(s waitState) (bool, error) {
			i := instanceOf(s, id)
			switch {
			case i == nil && s.known.instances:
				return true, fmt.Errorf("%s is gone", name)
			case i == nil:
				return false, nil
			case f.condition == conditionInstantiated:
				return i.State == api.Instantiated, nil
			}
			members := membersOf(s, id)
			unready := slices.ContainsFunc(members, func(n api.Node) bool { return !n.Ready })
			return len(members) > 0 && len(members) == len(i.Nodes) && !unready, nil
		},
		result: func(s waitState, took time.Duration) string {
			return fmt.Sprintf("%s is %s with %s, after %s", screen.Clean(name), f.condition, count(len(membersOf(s, id)), "node"), describe.Age(took))
		},
	}
	s, err := w.run(ctx)
	return a.answer(f.output, err, func() any { return instanceOf(s, id) })
}

func instanceOf(s waitState, id string) *api.Instance {
	i := slices.IndexFunc(s.instances, func(i api.Instance) bool { return i.ID == id })
	if i < 0 {
		return nil
	}
	return &s.instances[i]
}

// membersOf are the nodes in the instance's topology.
func membersOf(s waitState, id string) []api.Node {
	i := instanceOf(s, id)
	if i == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n api.Node) bool { return !slices.Contains(i.Nodes, n.ID) })
}
