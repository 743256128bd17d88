package discovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// addition is which servers of a stack come into the topology in force, because one of
// them called.
type addition struct {
	tx         *tx.Tx
	reconciler *reconcile.Reconciler
	found      *api.Topology
	before     *desired.State
	// now is the plan in force: what it gives to a node stays with it.
	now plan.Output
	// next is the topology in the making.
	next  *api.Topology
	added []string
	// refused is why a server of the stack is not among them, by its id.
	refused map[string]string
}

// add adds the servers of the stack that have a role and that the topology in force
// lacks, as a version of the desired state like a PUT's. To the operation that follows
// they are new. What would change anything for a server that is there (a second storage
// server, a volume that another one has) is refused: the END decides that, which knows
// which servers are gone. If the instance's stack was replaced, its old servers are dropped.
func (s *Service) add(t *tx.Tx, o *stack.Observation) (*addition, error) {
	before, err := desired.InForce(t)
	if err != nil {
		return nil, err
	}
	if err := before.Valid(); err != nil {
		return nil, err
	}
	a := &addition{tx: t, reconciler: s.Reconciler, found: o.Found, before: before, next: before.Topology, refused: map[string]string{}}
	if a.next == nil || replaced(before.Desired, o) {
		a.next = &api.Topology{StackID: o.Found.StackID, StackStatus: o.Found.StackStatus, StackStatusReason: o.Found.StackStatusReason}
	} else if err := a.planInForce(); err != nil {
		return nil, err
	}
	candidates, err := a.candidates()
	if err != nil {
		return nil, err
	}
	if err := a.addAll(candidates); err != nil || len(a.added) == 0 {
		return a, err
	}
	return a, a.activate(s, o)
}

// replaced says that the topology in force is of another stack than the instance's: of
// one that is gone, or that a request has put another in the place of.
func replaced(before store.Desired, o *stack.Observation) bool {
	of := stack.IDOf(before.Topology)
	return o.Succeeds || of != "" && of != o.Found.StackID && of != before.StackID && of != before.StackName
}

// planInForce plans what is in force: adding servers must not change it.
func (a *addition) planInForce() (err error) {
	if a.now, _, err = a.reconciler.Plan(a.tx, a.before); err == nil && len(a.now.Faults) > 0 {
		err = fmt.Errorf("the topology in force: %w", a.now.Faults)
	}
	return err
}

// activate puts the topology in force.
func (a *addition) activate(s *Service, o *stack.Observation) error {
	next := a.before.Desired
	next.Topology = a.next
	next.StackID, next.StackName = o.ID(next)
	next.Topology.StackID = next.StackID // it may have been a name
	if _, err := desired.Activate(a.tx, next, ""); err != nil {
		return err
	}
	id, added := a.tx.Instance.ID, a.added
	a.tx.OnCommit(func() {
		s.Log.Info("servers of the stack were added to the topology before an operation named them", "instance", id, "servers", added)
	})
	return a.reconciler.ReconcileAndFinish(a.tx)
}

// candidates are the servers of the stack that might be added.
func (a *addition) candidates() (list []api.Server, err error) {
	leaves, err := leaving(a.tx, func(store.Operation) bool { return true }, a.before.Topology, a.found)
	if err != nil {
		return nil, err
	}
	for _, s := range a.found.Servers {
		if slices.ContainsFunc(a.next.Servers, func(o api.Server) bool { return o.ID == s.ID }) {
			continue
		}
		alone := &api.Topology{Servers: []api.Server{s}}
		roles := topology.Assign(a.before.Params, alone, fault.Root)
		foreign, err := reconcile.ForeignServers(a.tx, alone)
		if err != nil {
			return nil, err
		}
		switch {
		case len(roles.Faults) > 0:
			a.refused[s.ID] = roles.Faults[0].Message
		case len(roles.Roles) == 0:
			a.refused[s.ID] = "the parameters give it no role"
		case len(foreign) > 0:
			a.refused[s.ID] = foreign[0].Message
		case leaves[s.ID] != "":
			a.refused[s.ID] = "an operation named it as leaving; the END of that operation decides"
		default:
			list = append(list, a.withoutOwnVolumes(s))
		}
	}
	return list, nil
}

// withoutOwnVolumes is a server while Heat may still be attaching volumes to it. One that
// names some of its volumes has only those, so until Heat is done it names none:
// then it has what no other server claims.
func (a *addition) withoutOwnVolumes(s api.Server) api.Server {
	others := func(id string) bool {
		return slices.ContainsFunc(a.found.Servers, func(o api.Server) bool { return o.ID != s.ID && slices.Contains(o.VolumeIds, id) })
	}
	if strings.HasSuffix(a.found.StackStatus, "_IN_PROGRESS") && !slices.ContainsFunc(s.VolumeIds, others) {
		s.VolumeIds = nil
	}
	return s
}

// join is the topology with these servers, and with the volumes and connection points
// of the stack that it has none of that name for.
func join(t, found *api.Topology, servers []api.Server) *api.Topology {
	next := *t
	next.Servers = slices.Concat(t.Servers, servers)
	next.Volumes = slices.Clone(t.Volumes)
	for _, v := range found.Volumes {
		if !slices.ContainsFunc(next.Volumes, func(o api.TopologyVolume) bool { return o.ID == v.ID || o.ResourceID == v.ResourceID }) {
			next.Volumes = append(next.Volumes, v)
		}
	}
	next.ConnectionPoints = slices.Clone(t.ConnectionPoints)
	for _, c := range found.ConnectionPoints {
		if !slices.ContainsFunc(next.ConnectionPoints, func(o api.ConnectionPoint) bool { return o.Name == c.Name }) {
			next.ConnectionPoints = append(next.ConnectionPoints, c)
		}
	}
	return &next
}

func serversOf(t *api.Topology) []api.Server {
	if t == nil {
		return nil
	}
	return t.Servers
}
