package operation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// targets are the nodes that have to be Ready for an END to complete: the servers
// that are new since the END before it, those that it is about, those whose
// document it changed, and those that its failed attempt before has left.
func (p *postRequest) targets(e *reconcile.Effect) []string {
	left := p.history.leftByFailure()
	var ids []string
	for _, n := range e.Plan.Nodes {
		speaks := p.keeps() && n.ID == e.Plan.CarriedOver.Owner // whose PersistentVolumes are to be as before
		if speaks || p.isNew(n.ID) || p.isAbout(n) || slices.Contains(e.Changed, n.ID) || slices.Contains(left, n.ID) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// isNew reports whether the server is not in the topology of the last END that took effect.
func (p *postRequest) isNew(id string) bool {
	return p.baseTopology == nil || !slices.ContainsFunc(p.baseTopology.Servers, func(s api.Server) bool { return s.ID == id })
}

func (p *postRequest) isAbout(n plan.Node) bool {
	switch p.r.Operation {
	case api.Instantiate, api.ModifyInfo, api.ChangeVnfPkg:
		return true // of the last two what is new came before them, as a PUT or a file
	case api.ChangeExtConn:
		return p.changesConnectionOf(n.ID)
	case api.Heal:
		return len(p.r.VnfcInstanceIds) == 0 || slices.ContainsFunc(p.r.VnfcInstanceIds, func(id string) bool { return p.names(id, n.ID) })
	}
	return false
}

func (p *postRequest) names(vnfc, serverID string) bool {
	return slices.ContainsFunc(topology.Named(p.next.Topology.Servers, vnfc), func(s api.Server) bool { return s.ID == serverID })
}

// warnings are what the plan warns of.
func (p *postRequest) warnings(e *reconcile.Effect) fault.List {
	if p.r.Operation == api.Terminate {
		return nil
	}
	list := slices.Clone(e.Plan.Warnings)
	if why := p.unseen(); why != "" {
		list = append(list, desired.AtStack.Fault(why+"; the servers known before stay"))
	}
	return list
}

// unseen is why a START continues without its stack: it takes it as it is.
func (p *postRequest) unseen() string {
	switch l := p.stack; {
	case l.Gone != nil:
		return l.Gone.Detail
	case l.Away != nil:
		return cmp.Or(l.Away.Detail, l.Away.Title)
	case l.Found != nil && p.given == nil:
		return p.said()
	}
	return ""
}

// bystanders warns of nodes that are not well and that the operation does not wait for.
func (p *postRequest) bystanders(e *reconcile.Effect, targets []string) (fault.List, error) {
	var list fault.List
	for _, n := range e.Plan.Nodes {
		if slices.Contains(targets, n.ID) {
			continue
		}
		record, _, err := p.t.Nodes().Get(n.ID)
		if err != nil {
			return nil, err
		}
		if t := progress.Target(record, p.t.Store.Epoch()); !t.Ready {
			list = append(list, fault.Root.Fault(fmt.Sprintf("%s (%s) is not ready and no part of this operation: %s, %s", t.Name, t.NodeID, t.Reason, t.Message)))
		}
	}
	return list, nil
}
