package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// check refuses what the operation may not do with this instance. Faults of the
// request come all at once and before everything else.
func (p *postRequest) check() error {
	if err := p.checkRegistry(); err != nil {
		return err
	}
	if err := p.awaitStack(); err != nil {
		return err
	}
	if p.r.Operation == api.Terminate && (p.given == nil || p.before.Params == nil) {
		return nil // what is in force can be ended, also if this controller would not accept it any more
	}
	faults, err := p.faults()
	if err != nil {
		return err
	}
	slices.SortStableFunc(faults, func(a, b fault.Fault) int { return cmp.Compare(a.Pointer, b.Pointer) })
	if err := api.Invalid(faults); err != nil {
		return err
	}
	if err := p.checkReadiness(); err != nil {
		return err
	}
	return p.checkRoles()
}

// needsInstantiated are the operations that change a stack which has to be there.
var needsInstantiated = map[api.OperationType]bool{api.Heal: true, api.Scale: true, api.ChangeExtConn: true, api.ChangeVnfPkg: true}

// checkReadiness refuses what the instance is not ready for, whatever its stack is.
func (p *postRequest) checkReadiness() error {
	if needsInstantiated[p.r.Operation] && p.t.Instance.State != api.Instantiated {
		return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
			"%s is %s; %s needs an INSTANTIATE END that has completed", p.t.Instance.Title(), p.t.Instance.State, p.r.Operation))
	}
	if !p.history.needsFiles() {
		return nil
	}
	return p.s.Files.Require(p.t, p.before)
}

func (p *postRequest) faults() (fault.List, error) {
	out, _, err := p.s.Reconciler.Plan(p.t, &desired.State{Desired: p.next, Parameters: p.before.Parameters})
	if err != nil {
		return nil, err
	}
	foreign, err := reconcile.ForeignServers(p.t, p.next.Topology)
	if err != nil {
		return nil, err
	}
	faults := append(out.Faults, foreign...)
	switch {
	case p.given == nil || p.r.Topology != nil:
	case p.stackProblem != nil:
		faults = nil // of what Heat left half made; its own reason is what there is to say
	default:
		faults = faults.StandAt(desired.AtStack) // the request has no topology; Heat's is what is new
	}
	healed, err := p.checkHealed(out)
	if err != nil {
		return nil, err
	}
	faults = slices.Concat(faults, p.checkTopology(), p.checkWithdrawal(out), healed, p.checkLeaving(out))
	if len(faults) == 0 && p.stackProblem == nil {
		if p.stackProblem, err = p.stranded(out); err != nil {
			return nil, err
		}
	}
	makes := p.r.Operation == api.Instantiate || p.r.Operation == api.Heal
	// Partial does not allow it: COMPLETED would call an instance INSTANTIATED that has no node.
	if len(faults) == 0 && len(out.Nodes) == 0 && makes && p.r.Phase == api.PhaseEnd && p.stackProblem == nil {
		faults = append(faults, desired.AtTopology.Key("servers").Fault("holds no server with a role, so no node would be planned; "+p.signs()))
	}
	k := p.known
	if c := p.before.Params.Cluster; c != nil {
		faults = append(faults, k.checkAspect(c, p.r)...)
	}
	return slices.Concat(faults, k.checkVNFCs(p.r), k.checkConnectionPoints(p.r)), nil
}

// checkRoles wants a server for each role, unless the request says that some may be
// missing: a cluster without workers would else be called complete.
func (p *postRequest) checkRoles() error {
	whole := p.stackProblem == nil
	if p.r.Partial || p.r.Phase != api.PhaseEnd || p.r.Operation == api.Terminate || leavesStack(p.r) || !whole {
		return nil
	}
	missing := topology.Assign(p.before.Params, p.next.Topology, fault.Root).Missing
	if len(missing) == 0 {
		return nil
	}
	at, add, actions := p.rolesFrom()
	problem := api.NewProblem(api.ProblemTopologyIncomplete, add+", or add `partial` if they are missing on purpose").With(append(actions, p.with("partial"))...)
	for _, role := range missing {
		problem.InvalidParams = append(problem.InvalidParams, at.Fault(topology.NoServer(p.before.Params, role)))
	}
	return problem
}

// with is the request that was refused, with a member that it needs.
func (p *postRequest) with(member string) api.Action {
	return api.Action{Call: api.CallPostOperation, ID: p.t.Instance.ID, Member: member}
}

// rolesFrom is where in the request its servers are, and where to add the ones that are missing.
func (p *postRequest) rolesFrom() (at fault.At, add string, actions []api.Action) {
	switch {
	case p.r.Topology != nil:
		return desired.AtTopology.Key("servers"), "add these servers to `topology`", nil
	case p.given != nil:
		return fault.Root, "add these servers to the Heat stack", nil
	}
	return fault.Root, "the topology of the last accepted request that gave one lacks these servers: give a `topology` with them", []api.Action{p.with("topology")}
}

// signs says what would give servers their roles.
func (p *postRequest) signs() string {
	var list []string
	for _, role := range []api.Role{api.RoleStorage, api.RoleMaster, api.RoleWorker, api.RoleRegistry} {
		if sign := topology.Sign(p.before.Params, role); sign != "" {
			list = append(list, sign)
		}
	}
	return "a server has a role by its " + strings.Join(list, ", or its ")
}

// checkTopology wants a topology if the operation would otherwise learn nothing.
func (p *postRequest) checkTopology() fault.List {
	if p.r.Phase == api.PhaseStart || p.r.Operation == api.Terminate || leavesStack(p.r) {
		return nil
	}
	switch {
	case p.next.Topology == nil:
		return fault.List{desired.AtTopology.Fault(fmt.Sprintf("is missing and none is known; %s needs the servers of the stack", p.r.Describe()))}
	case p.given == nil && p.r.Operation != api.Instantiate && p.t.Instance.DesiredVersion == p.base:
		return fault.List{desired.AtTopology.Fault(fmt.Sprintf(
			"is missing, and nothing has changed since the last operation; %s needs the servers that the stack has now", p.r.Describe()))}
	}
	return nil
}

// checkRegistry refuses what is never done with a private registry.
func (p *postRequest) checkRegistry() error {
	if p.r.Operation != api.Scale || p.before.Params.Registry == nil {
		return nil
	}
	return api.Invalid(fault.List{fault.Root.Key("operation").Fault("is SCALE; a private registry has one server and cannot be scaled")})
}
