package lcm

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

// check refuses what the operation may not do with this instance. Faults of the
// request come all at once and before everything else.
func (p *posting) check() error {
	if err := p.checkRegistry(); err != nil {
		return err
	}
	if err := p.awaitStack(); err != nil {
		return err
	}
	faults, err := p.faults()
	if err != nil {
		return err
	}
	slices.SortStableFunc(faults, func(a, b fault.Fault) int { return cmp.Compare(a.Pointer, b.Pointer) })
	if err := invalid(faults); err != nil {
		return err
	}
	if err := p.checkReadiness(); err != nil {
		return err
	}
	return p.checkRoles()
}

// checkReadiness refuses what the instance is not ready for, whatever its stack is.
func (p *posting) checkReadiness() error {
	if (p.r.Operation == api.Heal || p.r.Operation == api.Scale) && p.inst.State != api.Instantiated {
		return conflict("VNF instance %s is %s; %s needs an INSTANTIATE END that has completed", p.inst.ID, p.inst.State, p.r.Operation)
	}
	if !p.needsFiles() {
		return nil
	}
	return p.requireFiles(p.before)
}

func (p *posting) faults() (fault.List, error) {
	out, err := p.plan(&desired{Desired: p.next, params: p.before.params})
	if err != nil {
		return nil, err
	}
	foreign, err := p.foreignServers(p.next.Topology)
	if err != nil {
		return nil, err
	}
	faults := append(out.Faults, foreign...)
	failed := p.r.Phase == api.PhaseEnd && p.stackProblem() != nil
	switch {
	case p.given == nil || p.r.Topology != nil:
	case failed:
		faults = nil // of what Heat left half made; its own reason is what there is to say
	default:
		faults = standAt(atStack, faults) // the request has no topology; Heat's is what is new
	}
	faults = slices.Concat(faults, p.checkTopology(), p.checkWithdrawal(out))
	makes := p.r.Operation == api.Instantiate || p.r.Operation == api.Heal
	if len(faults) == 0 && len(out.Nodes) == 0 && makes && p.r.Phase == api.PhaseEnd && !p.r.Partial && !failed {
		faults = append(faults, atTopology.Key("servers").Fault("holds no server with a role, so nothing would come of it; "+p.signs()))
	}
	k := p.known()
	if c := p.before.params.Cluster; c != nil {
		faults = append(faults, k.checkAspect(c, p.r)...)
	}
	return append(faults, k.checkVNFCs(p.r)...), nil
}

// checkRoles wants a server for each role, unless the request says that some may be
// missing: a cluster without workers would else be called complete.
func (p *posting) checkRoles() error {
	whole := p.stackProblem() == nil
	if p.r.Partial || p.r.Phase != api.PhaseEnd || p.r.Operation == api.Terminate || !whole {
		return nil
	}
	missing := topology.Assign(p.before.params, p.next.Topology, fault.Root).Missing
	if len(missing) == 0 {
		return nil
	}
	problem := api.NewProblem(api.ProblemTopologyIncomplete, `give these servers in the topology, or say "partial": true where they are to be missing`)
	for _, role := range missing {
		problem.InvalidParams = append(problem.InvalidParams, atTopology.Key("servers").Fault(fmt.Sprintf(
			"no server is the %s; it would have %s", role, topology.Sign(p.before.params, role))))
	}
	return problem
}

// signs says what would give servers their roles.
func (p *posting) signs() string {
	var list []string
	for _, role := range []api.Role{api.RoleStorage, api.RoleMaster, api.RoleWorker, api.RoleRegistry} {
		if sign := topology.Sign(p.before.params, role); sign != "" {
			list = append(list, sign)
		}
	}
	return "a server has a role by its " + strings.Join(list, ", or its ")
}

// checkTopology wants a topology where the operation would otherwise learn nothing.
func (p *posting) checkTopology() fault.List {
	if p.r.Phase == api.PhaseStart || p.r.Operation == api.Terminate {
		return nil
	}
	switch {
	case p.next.Topology == nil:
		return fault.List{atTopology.Fault(fmt.Sprintf("is missing and none is known; %s needs the servers of the stack", describe(p.r)))}
	case p.given == nil && p.r.Operation != api.Instantiate && p.inst.DesiredVersion == p.base:
		return fault.List{atTopology.Fault(fmt.Sprintf(
			"is missing, and nothing has changed since the last operation; %s needs the servers that the stack has now", describe(p.r)))}
	}
	return nil
}

// checkRegistry refuses what is never done with a private registry.
func (p *posting) checkRegistry() error {
	if p.before.params.Registry == nil || p.r.Operation != api.Scale {
		return nil
	}
	return invalid(fault.List{fault.Root.Key("operation").Fault("is SCALE; a private registry has one server and cannot be scaled")})
}

// needsFiles: a START wants all files, and so does an END that no START prepared.
// TERMINATE uses none.
func (p *posting) needsFiles() bool {
	if p.r.Operation == api.Terminate {
		return false
	}
	if p.r.Phase == api.PhaseStart {
		return true
	}
	for _, o := range p.history {
		if sameKind(o.Request, p.r) {
			return o.Phase != api.PhaseStart || o.State != api.Completed
		}
	}
	return true
}

// known is every server that the request may name: of the stack before the
// operation, as it is in force, and as the request gives it.
type known struct {
	servers []api.Server
	roles   map[string]api.Role
	// masters and all are the ids before the operation.
	masters, all []string
}

func (p *posting) known() *known {
	k := &known{roles: map[string]api.Role{}}
	stacks := []*api.Topology{p.baseTopology, p.before.Topology, p.next.Topology}
	if p.r.Phase == api.PhaseStart {
		slices.Reverse(stacks) // nothing has happened yet: the newest tells best
	}
	for _, t := range stacks {
		a := topology.Assign(p.before.params, t, fault.Root)
		if t == nil || len(a.Faults) > 0 {
			continue
		}
		for _, s := range t.Servers {
			k.servers = append(k.servers, s)
			k.roles[s.ID] = a.Roles[s.ID]
		}
		if k.all == nil {
			k.masters = a.Servers(api.RoleMaster)
			for id := range a.Roles {
				k.all = append(k.all, id)
			}
		}
	}
	return k
}

// named is the servers with this VNFC instance id. A server's own id will do where
// the topology has no VNFC instance ids.
func (k *known) named(id string) []api.Server {
	var list []api.Server
	for _, s := range k.servers {
		if s.VnfcInstanceID == id || s.ID == strings.ToLower(id) {
			list = append(list, s)
		}
	}
	return list
}

// checkVNFCs wants to know every VNFC instance that the request names, and refuses
// to take away what the specifications do not let go.
func (k *known) checkVNFCs(r api.OperationRequest) fault.List {
	var faults fault.List
	at := fault.Root.Key("vnfcInstanceIds")
	gone := map[string]bool{}
	for i, id := range r.VnfcInstanceIds {
		servers := k.named(id)
		if len(servers) == 0 {
			faults = append(faults, at.Index(i).Fault(fmt.Sprintf(
				"no server has the VNFC instance %q; give servers[].vnfcInstanceId in the topology, or the server's own id", id)))
		}
		for _, s := range servers {
			gone[s.ID] = true
			if r.Operation == api.Scale && k.roles[s.ID] == api.RoleStorage {
				faults = append(faults, at.Index(i).Fault(fmt.Sprintf("%q is the storage server %s, which cannot be scaled", id, s.Name)))
				break
			}
		}
	}
	allOf := func(ids []string) bool {
		return len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return !gone[id] })
	}
	if allOf(k.masters) && !allOf(k.all) {
		faults = append(faults, at.Fault(fmt.Sprintf(
			"names every master (%s), and none would be left to keep the cluster; heal the entire VNF instead, with an empty list", strings.Join(k.masters, ", "))))
	}
	return faults
}

// checkAspect refuses to scale what has one server, and what nobody knows.
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
