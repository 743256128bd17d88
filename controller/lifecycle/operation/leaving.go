package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// leaving are the masters and workers that the START of a SCALE_IN or HEAL names, ordered: they
// leave the cluster before their servers go. If every master goes, the cluster goes with them
// and nobody leaves it; nor does anybody if there is no cluster yet.
func (p *postRequest) leaving() []string {
	if p.r.Phase != api.PhaseStart || p.r.Operation == api.Terminate || p.next.Topology == nil ||
		p.before.Params.ClusterMembers() == nil || len(p.t.Instance.CarriedOver.Members) == 0 {
		return nil
	}
	k := p.known
	named := k.namedBy(p.r.VnfcInstanceIds)
	if allOf(k.masters, named) {
		return nil
	}
	var ids []string
	for _, s := range p.next.Topology.Servers {
		if role := k.roles[s.ID]; named[s.ID] && (role == api.RoleMaster || role == api.RoleWorker) {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// leavingMembers are the servers that leave the cluster, for people.
func (p *postRequest) leavingMembers() (list []api.LeavingMember) {
	for _, id := range p.next.Leaving {
		i := slices.IndexFunc(p.next.Topology.Servers, func(s api.Server) bool { return s.ID == id })
		list = append(list, api.LeavingMember{NodeID: id, Name: p.next.Topology.Servers[i].Name})
	}
	return list
}

// checkLeaving refuses members that leave if nobody is left who lets them go, or on whom their
// Pods could run.
func (p *postRequest) checkLeaving(out plan.Output) (faults fault.List) {
	if p.r.Force && p.before.Params.ClusterMembers() == nil {
		faults = append(faults, fault.Root.Key("force").Fault("is true; the parameters have no cluster_members, so no server leaves the cluster by nodehitch; leave it out"))
	}
	if len(p.next.Leaving) == 0 || p.r.Force || len(out.Faults) > 0 {
		return faults
	}
	at, k := fault.Root.Key("vnfcInstanceIds"), p.known
	if allOf(k.workers, k.namedBy(p.r.VnfcInstanceIds)) {
		faults = append(faults, at.Fault(fmt.Sprintf(
			"names every worker (%s), so that no worker would be left for their Pods; name fewer, or add `force`", strings.Join(k.workers, ", "))))
	}
	if out.CarriedOver.Owner == "" {
		faults = append(faults, at.Fault("names members of the cluster, and no other master of the topology is one that could let them leave; "+
			"give it in the topology, or add `force`"))
	}
	return faults
}
