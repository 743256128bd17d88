package operation

import (
	"slices"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// withdraws reports whether the request is the START of a HEAL that takes the storage
// server away and leaves the cluster: the PersistentVolumes that it serves have to go
// before it does (spec: heal_start). If the entire VNF is healed, the cluster goes with
// them.
func (p *posting) withdraws() bool {
	c := p.before.Params.Cluster
	if p.r.Operation != api.Heal || p.r.Phase != api.PhaseStart || c == nil || len(c.PersistentVolumes) == 0 && !p.t.Instance.CarriedOver.Registered {
		return false
	}
	named := map[string]bool{}
	storage := false
	k := p.known()
	for _, id := range p.r.VnfcInstanceIds {
		for _, s := range topology.Named(k.servers, id) {
			named[s.ID] = true
			storage = storage || k.roles[s.ID] == api.RoleStorage
		}
	}
	return storage && slices.ContainsFunc(k.all, func(id string) bool { return !named[id] })
}

// checkWithdrawal wants the servers that are asked in the topology: the storage server, whose
// addresses tell which PersistentVolumes are its own, and a master that has registered.
func (p *posting) checkWithdrawal(out plan.Output) fault.List {
	if !p.next.WithdrawPersistentVolumes || len(out.Faults) > 0 {
		return nil
	}
	k := p.known()
	here := map[api.Role]bool{}
	for _, n := range out.Nodes {
		named := slices.ContainsFunc(p.r.VnfcInstanceIds, func(id string) bool {
			return slices.ContainsFunc(topology.Named(k.servers, id), func(s api.Server) bool { return s.ID == n.ID })
		})
		here[n.Role] = here[n.Role] || named || n.Role == api.RoleMaster
	}
	switch at := fault.Root.Key("vnfcInstanceIds"); {
	case !here[api.RoleStorage]:
		return fault.List{at.Fault("names the storage server, but the topology no longer has it, so its PersistentVolumes cannot be told from others; " +
			"post the START before the stack changes, or only the END")}
	case !here[api.RoleMaster] && p.t.Instance.CarriedOver.Registered:
		return fault.List{at.Fault("names the storage server, and the topology has no master that could withdraw its PersistentVolumes; give it in the topology")}
	}
	return nil
}
