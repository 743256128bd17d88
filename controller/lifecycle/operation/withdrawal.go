package operation

import (
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// withdraws reports whether the request is a START after which the storage server is gone
// (spec: heal_start) or has other addresses: the PersistentVolumes that it serves have to
// go before.
func (p *postRequest) withdraws() bool {
	if p.r.Phase != api.PhaseStart || p.r.Operation != api.Heal && p.r.Operation != api.ChangeExtConn {
		return false
	}
	c := p.before.Params.Cluster
	if c == nil || len(c.PersistentVolumes) == 0 && !p.t.Instance.CarriedOver.Registered {
		return false
	}
	if p.r.Operation == api.Heal {
		return p.healed.storage && !p.keeps()
	}
	return c.StorageServer != nil && p.changesStorageAddress()
}

// healsStorageServer reports whether the HEAL of the servers with these names takes the storage
// server away and leaves the cluster. If the entire VNF is healed, the cluster goes with them.
func (p *postRequest) healsStorageServer(names []string) bool {
	k, named := p.known, p.known.namedBy(names)
	storage := slices.ContainsFunc(k.servers, func(s api.Server) bool { return named[s.ID] && k.roles[s.ID] == api.RoleStorage })
	return storage && slices.ContainsFunc(k.all, func(id string) bool { return !named[id] })
}

// checkWithdrawal wants the servers that are asked in the topology: the storage server, whose
// addresses tell which PersistentVolumes are its own, and a master that has registered.
func (p *postRequest) checkWithdrawal(out plan.Output) fault.List {
	if !p.next.WithdrawPersistentVolumes || len(out.Faults) > 0 {
		return nil
	}
	at, names := fault.Root.Key("vnfcInstanceIds"), "names"
	if p.r.Operation == api.ChangeExtConn {
		at, names = fault.Root.Key("connectionPointNames"), "concerns"
	}
	named, here := p.known.namedBy(p.r.VnfcInstanceIds), map[api.Role]bool{}
	for _, n := range out.Nodes {
		here[n.Role] = here[n.Role] || n.Role == api.RoleMaster || p.r.Operation == api.ChangeExtConn || named[n.ID]
	}
	switch {
	case !here[api.RoleStorage]:
		return fault.List{at.Fault(names + " the storage server, but the topology no longer has it, so its PersistentVolumes cannot be told from others; " +
			"name the one that it has now, post the START before the stack changes, or post only the END")}
	case !here[api.RoleMaster] && p.t.Instance.CarriedOver.Registered:
		return fault.List{at.Fault(names + " the storage server, and the topology has no master that could withdraw its PersistentVolumes; give it in the topology")}
	}
	return nil
}
