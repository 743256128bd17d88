package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// known is every server that the request may name: of the stack before the
// operation, as it is in force, and as the request gives it.
type known struct {
	servers []api.Server
	roles   map[string]api.Role
	// points are the names of all connection points, also of those of no server.
	points []string
	// masters, workers and all are the ids before the operation.
	masters, workers, all []string
}

// knownServers is what the request may name.
func (p *postRequest) knownServers() *known {
	k := &known{roles: map[string]api.Role{}}
	stacks := []*api.Topology{p.baseTopology, p.before.Topology, p.next.Topology}
	if p.r.Phase == api.PhaseStart {
		slices.Reverse(stacks) // nothing has happened yet: the newest tells best
	}
	for _, t := range stacks {
		a := topology.Assign(p.before.Params, t, fault.Root)
		if t == nil || len(a.Faults) > 0 {
			continue
		}
		k.points = append(k.points, pointNames(t.ConnectionPoints)...)
		for _, s := range t.Servers {
			k.servers = append(k.servers, s)
			k.points = append(k.points, pointNames(s.ConnectionPoints)...)
			k.roles[s.ID] = a.Roles[s.ID]
		}
		if k.all == nil {
			k.masters, k.workers = a.Servers(api.RoleMaster), a.Servers(api.RoleWorker)
			for id := range a.Roles {
				k.all = append(k.all, id)
			}
		}
	}
	return k
}

// checkVNFCs wants to know every VNFC instance that the request names, and refuses
// to take away what the specifications do not let go.
func (k *known) checkVNFCs(r api.OperationRequest) fault.List {
	var faults fault.List
	at := fault.Root.Key("vnfcInstanceIds")
	expected := k.named // the list of a large VNF is long
	for i, id := range r.VnfcInstanceIds {
		servers := topology.Named(k.servers, id)
		if len(servers) == 0 {
			faults = append(faults, at.Index(i).Fault(fmt.Sprintf(
				"no server has the VNFC instance, the id or the nested stack %q; expected one of %s", id, expected())))
			expected = func() string { return "those listed at the first such name" }
		}
		for _, s := range servers {
			if r.Operation == api.Scale && k.roles[s.ID] == api.RoleStorage {
				faults = append(faults, at.Index(i).Fault(fmt.Sprintf("%q is the storage server %s, which cannot be scaled", id, s.Name)))
				break
			}
		}
	}
	if gone := k.namedBy(r.VnfcInstanceIds); allOf(k.masters, gone) && !allOf(k.all, gone) {
		faults = append(faults, at.Fault(fmt.Sprintf(
			"names every master (%s), so that no master would be left in the cluster; heal the entire VNF instead, with an empty list", strings.Join(k.masters, ", "))))
	}
	return faults
}

// namedBy are the ids of the servers that these names mean.
func (k *known) namedBy(names []string) map[string]bool {
	ids := map[string]bool{}
	for _, name := range names {
		for _, s := range topology.Named(k.servers, name) {
			ids[s.ID] = true
		}
	}
	return ids
}

// allOf reports whether there are any ids, and all are among these.
func allOf(ids []string, these map[string]bool) bool {
	return len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return !these[id] })
}

// named lists every server with the ids that it may be named by.
func (k *known) named() string {
	var list []string
	for _, s := range k.servers {
		text := fmt.Sprintf("%s (id %s", s.Name, s.ID)
		if s.VnfcInstanceID != "" {
			text += ", VNFC instance " + s.VnfcInstanceID
		}
		if s.MemberStackID != "" {
			text += ", nested stack " + s.MemberStackID
		}
		list = append(list, text+")")
	}
	slices.Sort(list)
	return cmp.Or(strings.Join(slices.Compact(list), ", "), "the topology's servers, and it has none")
}

// checkAspect refuses to scale an aspect with one server, and an unknown one.
func (k *known) checkAspect(c *params.Cluster, r api.OperationRequest) fault.List {
	if r.AspectID == "" {
		return nil
	}
	at := fault.Root.Key("aspectId")
	aspects := []string{}
	for _, a := range []string{c.Master.AspectID, c.Worker.AspectID} {
		if a != "" {
			aspects = append(aspects, a)
		}
	}
	for _, s := range k.servers {
		if k.roles[s.ID] == api.RoleStorage && (s.AspectID == r.AspectID || s.VduID == r.AspectID || s.Name == r.AspectID) {
			return fault.List{at.Fault(fmt.Sprintf("%q is the storage server's, which cannot be scaled", r.AspectID))}
		}
		if s.AspectID != "" {
			aspects = append(aspects, s.AspectID)
		}
	}
	if len(aspects) == 0 || slices.Contains(aspects, r.AspectID) {
		return nil
	}
	slices.Sort(aspects)
	return fault.List{at.Fault(fmt.Sprintf("%q is no aspect of this instance; expected one of %s", r.AspectID, strings.Join(slices.Compact(aspects), ", ")))}
}
