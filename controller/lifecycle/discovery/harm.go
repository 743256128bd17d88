package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// addAll tries all servers at once, and one by one if that is refused.
func (a *addition) addAll(servers []api.Server) error {
	if len(servers) == 0 {
		return nil
	}
	why, err := a.try(servers)
	if err != nil || why == "" {
		return err
	}
	for _, s := range servers {
		if why, err = a.try([]api.Server{s}); err != nil {
			return err
		}
		if why != "" {
			a.refused[s.ID] = why
		}
	}
	return nil
}

// try adds servers, or says why that may not be.
func (a *addition) try(servers []api.Server) (why string, err error) {
	next := join(a.next, a.found, servers)
	if faults := topology.Validate(next, desired.AtTopology); len(faults) > 0 {
		return faults[0].Message, nil
	}
	d := a.before.Desired
	d.Topology = next
	out, _, err := a.reconciler.Plan(a.tx, &desired.State{Desired: d, Parameters: a.before.Parameters})
	if err != nil {
		return "", err
	}
	if why, err := a.harm(out, servers); why != "" || err != nil {
		return why, err
	}
	a.next = next
	for _, s := range servers {
		a.added = append(a.added, s.ID)
	}
	return "", nil
}

// harm is what the plan with these servers in it would do to others, or they to
// themselves; "" is nothing.
func (a *addition) harm(out plan.Output, servers []api.Server) (string, error) {
	if len(out.Faults) > 0 {
		return "the parameters allow no such server besides those in the topology; the END of the operation that makes it decides", nil
	}
	var problem *api.Problem
	if err := a.reconciler.KeepsTargets(a.tx, out); errors.As(err, &problem) {
		return problem.Detail, nil
	} else if err != nil {
		return "", err
	}
	for _, n := range out.Nodes {
		if slices.ContainsFunc(servers, func(s api.Server) bool { return s.ID == n.ID }) && a.unresolved(n) {
			return "Heat has not attached its volume yet", nil
		}
	}
	for _, n := range a.now.Nodes {
		if !keeps(n, out.Nodes) {
			return fmt.Sprintf("adding it would change the server %s; the END of the operation that makes it decides", n.Name), nil
		}
	}
	return "", nil
}

// unresolved says that the node would be Ready without a volume that it is about to get.
func (a *addition) unresolved(n plan.Node) bool {
	return strings.HasSuffix(a.found.StackStatus, "_IN_PROGRESS") &&
		slices.ContainsFunc(n.Withheld, func(w api.Withheld) bool { return w.Reason == api.ReasonVolumeUnresolved })
}

// keeps reports whether the node has in a plan what it had before. What was withheld may
// come to it: of PersistentVolumes, the storage server may be among those who called. The lists
// of a cluster's members may become longer.
func keeps(before plan.Node, nodes []plan.Node) bool {
	i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.ID == before.ID })
	if i < 0 {
		return false
	}
	after := nodes[i].Config
	if before.Config.PersistentVolumes == nil {
		after.PersistentVolumes = nil
	}
	if before.Config.Storage == nil {
		after.Storage = nil
	}
	if before.Config.Registry == nil {
		after.Registry = nil
	}
	after.Cluster, after.ClusterMembers = before.Config.Cluster, before.Config.ClusterMembers
	return before.Config.Digest() == after.Digest()
}
