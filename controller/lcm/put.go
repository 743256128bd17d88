package lcm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// PutInstance makes an instance, or gives it other parameters. What the request
// leaves out (topology, stackId, vimConnectionInfo) stays as it is. Faults are all
// reported at once and nothing is kept; the same content again changes nothing.
func (s *Service) PutInstance(ctx context.Context, id string, spec api.InstanceSpec) (api.Instance, bool, error) {
	p, report := params.Parse(spec.AdditionalParams, atParams)
	faults := append(report.Faults, topology.Validate(spec.Topology, atTopology)...)
	faults = append(faults, checkVIM(spec.VimConnectionInfo)...)
	faults = append(faults, checkStack(spec.StackID, spec.Topology)...)
	if err := invalid(faults); err != nil {
		return api.Instance{}, false, err
	}
	put := &putting{spec: spec, params: p}
	err := s.looking(id, func() (err error) {
		if put.look, err = s.lookForPut(ctx, id, spec); err != nil {
			return err
		}
		if put.verdicts, err = s.judgeBefore(id, spec.AdditionalParams, p); err != nil {
			return err
		}
		return s.transact(ctx, func(tx *store.Tx) (*unit, error) { return put.begin(s, tx, id) }, put.run)
	})
	if err != nil {
		return api.Instance{}, false, err
	}
	s.knocks.reset(id)
	instance, err := s.GetInstance(ctx, id)
	return instance, put.created, err
}

// lookForPut looks into the stack that a PUT names, or whose servers it describes. A
// stack that is not there yet is as good as one: a PUT comes before the stack does. So
// is a cloud that does not answer, for the parameters alone need none.
func (s *Service) lookForPut(ctx context.Context, id string, spec api.InstanceSpec) (*look, error) {
	l := &look{Request: stack.Request{InstanceID: id, StackID: spec.StackID, Inline: spec.Topology, VIM: spec.VimConnectionInfo}, strict: true}
	err := s.view(id, func(u *unit) error {
		if spec.StackID == "" && spec.Topology == nil { // its stack stays as it is known
			l.version = u.inst.DesiredVersion
			return nil
		}
		return u.fill(l)
	})
	var problem *api.Problem
	if err != nil && (!errors.As(err, &problem) || problem.Type != api.ProblemNotFound) {
		return nil, err
	}
	if err := s.ask(ctx, s.Source, l, lookBriefly); err != nil {
		return nil, err
	}
	return l, l.whole()
}

// judgeBefore checks the files that are there already for the parameters of a PUT,
// and again only those that were not checked for the same ones before.
func (s *Service) judgeBefore(id string, text json.RawMessage, p *params.Params) (map[string]verdict, error) {
	d, files, err := s.uses(id)
	if err != nil {
		return nil, err
	}
	if d != nil && sameJSON(d.raw, text) {
		files = slices.DeleteFunc(files, func(f store.File) bool { return f.Judged == judgedFor(d.Desired) })
	}
	return s.judge(p, files)
}

// putting is a PUT at work.
type putting struct {
	spec     api.InstanceSpec
	params   *params.Params
	look     *look
	verdicts map[string]verdict
	created  bool
}

func (p *putting) begin(s *Service, tx *store.Tx, id string) (*unit, error) {
	inst, found, err := tx.Instances().Get(id)
	if err != nil {
		return nil, err
	}
	u := s.newUnit(tx, inst)
	if found {
		return u, nil
	}
	p.created = true
	u.inst = store.Instance{ID: id, Kind: kindOf(p.params), State: api.NotInstantiated, Epoch: s.Store.Epoch(), CreatedAt: u.now, UpdatedAt: u.now}
	u.changed()
	return u, s.Enrolment.NewJoinToken(tx, &u.inst)
}

func (p *putting) run(u *unit) error {
	if err := u.current(p.look); err != nil {
		return err
	}
	if kind := kindOf(p.params); kind != u.inst.Kind {
		return conflict("VNF instance %s is a %s and the parameters describe a %s; use another id for it", u.inst.ID, u.inst.Kind, kind)
	}
	next, err := p.next(u)
	if err != nil {
		return err
	}
	if err := p.check(u, next); err != nil {
		return err
	}
	if _, err := u.force(next, ""); err != nil {
		return err
	}
	if err := u.record(p.verdicts, judgedFor(next)); err != nil || !u.dirty {
		return err
	}
	return u.settle()
}

// next is the desired state after the request.
func (p *putting) next(u *unit) (store.Desired, error) {
	var next store.Desired
	if u.inst.DesiredVersion != 0 {
		var err error
		if next, err = u.inForce(); err != nil {
			return next, err
		}
	}
	next.StackID, next.StackName = p.look.stackID(next)
	if found := p.look.topology(); found != nil {
		next.Topology = found
	}
	var err error
	if next.AdditionalParams, err = u.reseal(next.AdditionalParams, p.spec.AdditionalParams); err != nil {
		return next, err
	}
	next.VIMConnectionInfo, err = u.reseal(next.VIMConnectionInfo, p.spec.VimConnectionInfo)
	return next, err
}

// check holds the parameters against the topology, whichever of them is new.
func (p *putting) check(u *unit, next store.Desired) error {
	out, err := u.plan(&desired{Desired: next, params: p.params})
	if err != nil {
		return err
	}
	foreign, err := u.foreignServers(next.Topology)
	if err != nil {
		return err
	}
	faults := append(out.Faults, foreign...)
	switch { // the request has no such place
	case p.look.topology() == nil:
		faults = standAt(atParams, faults) // its parameters are what is new
	case p.spec.Topology == nil:
		faults = standAt(atStack, faults)
	}
	if err := invalid(faults); err != nil {
		return err
	}
	return u.keepsTargets(out.Nodes)
}

// standAt has all faults stand at one place of the request.
func standAt(where fault.At, faults fault.List) fault.List {
	for i := range faults {
		faults[i].Pointer = string(where)
	}
	return faults
}

// keepsTargets refuses to take a server away that the operation at work waits for:
// it would be done without it. A START is about the storage server as well: without it
// nobody could tell which PersistentVolumes are its own.
func (u *unit) keepsTargets(nodes []plan.Node) error {
	if u.inst.Processing == 0 {
		return nil
	}
	op, err := u.operation(u.inst.Processing)
	if err != nil {
		return err
	}
	waitsFor := op.Targets
	if op.Phase == api.PhaseStart {
		storage, err := u.storageServers()
		if err != nil {
			return err
		}
		waitsFor = slices.Concat(waitsFor, storage)
	}
	for _, t := range waitsFor {
		if slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.ID == t.NodeID }) {
			continue
		}
		return api.NewProblem(api.ProblemOperationInProgress, fmt.Sprintf(
			"operation %s (%s) of VNF instance %s waits for the server %s (%s), and with this request no role would have it; wait for the end of the operation, at %s at the latest",
			op.ID, describe(op.Request), u.inst.ID, t.Name, t.NodeID, stamp(op.Deadline)))
	}
	return nil
}

// storageServers is the storage server in force, as a target.
func (u *unit) storageServers() (list []api.OperationTarget, err error) {
	for _, id := range u.inst.NodeIDs {
		n, found, err := u.tx.Nodes().Get(id)
		if err != nil {
			return nil, err
		}
		if found && n.InstanceID == u.inst.ID && n.Expected && n.Role == api.RoleStorage {
			list = append(list, api.OperationTarget{NodeID: n.ID, Name: n.Name})
		}
	}
	return list, nil
}

// foreignServers are the servers that another instance's topology has.
func (u *unit) foreignServers(t *api.Topology) (fault.List, error) {
	var faults fault.List
	if t == nil {
		return nil, nil
	}
	for i, server := range t.Servers {
		n, found, err := u.tx.Nodes().Get(server.ID)
		if err != nil {
			return nil, err
		}
		if found && n.InstanceID != u.inst.ID && n.Expected {
			faults = append(faults, atTopology.Key("servers").Index(i).Key("id").Fault(fmt.Sprintf(
				"server %s belongs to VNF instance %s; a server is in one instance", server.ID, n.InstanceID)))
		}
	}
	return faults, nil
}

// checkStack wants the two places of a request that name the stack to agree.
func checkStack(id string, t *api.Topology) fault.List {
	if other := stackOf(t); id != "" && other != "" && id != other {
		return fault.List{atTopology.Key("stackId").Fault(fmt.Sprintf("is %q and the request's stackId is %q; they name one stack", other, id))}
	}
	return nil
}

func kindOf(p *params.Params) api.VNFKind {
	if p.Registry != nil {
		return api.PrivateRegistry
	}
	return api.KubernetesCluster
}

// checkVIM wants the list that SOL 003 has; what is in it is the source's business.
func checkVIM(text json.RawMessage) fault.List {
	if len(text) == 0 {
		return nil
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return fault.List{fault.Root.Key("vimConnectionInfo").Fault("is not a list of objects; expected VimConnectionInfo[] of SOL003")}
	}
	return nil
}
