package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// planOf shows what applying the request would change.
func (a *app) planOf(ctx context.Context, c *client.Controller, id string, before *api.Instance, checked *checked, o output) error {
	plan, err := client.Read[api.InstancePlan](c.PlanInstance(ctx, id, checked.Spec))
	if err != nil {
		return subjectError{err, subject{instance: id, flags: applyFlagOf}}
	}
	if o != asTable {
		return a.encode(o, plan)
	}
	a.printPlan(before, plan)
	for _, f := range filesLacking(&plan.Instance, checked) {
		fmt.Fprintf(a.out, "would upload %s, %s\n", screen.Clean(f.Path), describe.Size(f.SizeBytes))
	}
	a.hintAtMore(id, a.printWarnings(&plan.Instance, checked.Warnings), false)
	return nil
}

func (a *app) printPlan(before *api.Instance, plan *api.InstancePlan) {
	after := &plan.Instance
	switch {
	case before == nil:
		fmt.Fprintf(a.out, "%s would be created: %s\n", instanceTitle(after), after.Kind)
	case before.DesiredVersion == after.DesiredVersion && !renamed(before, after):
		fmt.Fprintln(a.out, instanceTitle(after)+" would not change")
	default:
		fmt.Fprintln(a.out, instanceTitle(after)+" would change")
		a.printDifferences(before, after)
	}
	for _, n := range plan.Nodes {
		fmt.Fprintln(a.out, screen.Clean(nodeChange(n)))
		for _, w := range n.Withheld {
			fmt.Fprintln(a.out, "  withheld: "+screen.Clean(w.Section+", "+w.Reason+": "+w.Message))
		}
	}
}

// nodeChange is what would change for a node, on one line.
func nodeChange(n api.NodeChange) string {
	name := fmt.Sprintf("node %s (%s, %s)", n.Name, n.Role, describe.Short(n.ID))
	sections := strings.Join(n.Sections, ", ")
	switch n.Change {
	case api.NodeAdded:
		return name + " would be added: " + sections
	case api.NodeRemoved:
		return name + " would leave the topology"
	}
	return name + " would change: " + sections
}
