package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/desired"
	"github.com/nodehitch/nodehitch/controller/packagefile"
	"github.com/nodehitch/nodehitch/controller/plan"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// PutInstance makes an instance, or gives it other parameters. What the request
// leaves out (topology, stackId, vimConnectionInfo) stays as it is. Faults are all
// reported at once and nothing is kept; the same content again changes nothing.
func (s *Service) PutInstance(ctx context.Context, id string, spec api.InstanceSpec) (api.Instance, bool, error) {
	put, err := s.newPutting(spec)
	if err != nil {
		return api.Instance{}, false, err
	}
	if err := put.change(ctx, id, put.run); err != nil {
		return api.Instance{}, false, err
	}
	s.Accepted(id)
	instance, err := s.GetInstance(ctx, id)
	return instance, put.created, err
}

// newPutting refuses a body that is wrong whatever the instance is.
func (s *Service) newPutting(spec api.InstanceSpec) (*putting, error) {
	p, report := params.Parse(spec.AdditionalParams, desired.AtParams)
	faults := append(report.Faults, topology.Validate(spec.Topology, desired.AtTopology)...)
	faults = append(faults, params.CheckVIMConnectionInfo(spec.VimConnectionInfo, fault.Root.Key("vimConnectionInfo"))...)
	faults = append(faults, topology.CheckStackID(spec.StackID, spec.Topology, desired.AtTopology)...)
	return &putting{s: s, spec: spec, params: p}, api.Invalid(faults)
}

// change observes the stack and runs the change in one transaction on the instance, which it
// makes if there is none.
func (p *putting) change(ctx context.Context, id string, run func(*tx.Tx) error) error {
	return p.s.Observer.Try(id, func() (err error) {
		if p.stack, err = p.s.observe(ctx, id, p.spec); err != nil {
			return err
		}
		if p.results, err = p.s.validateBefore(id, p.spec.AdditionalParams, p.params); err != nil {
			return err
		}
		return p.s.Runner.Upsert(ctx, id, func(t *tx.Tx, found bool) error {
			if p.created = !found; p.created {
				if err := p.create(t, id); err != nil {
					return err
				}
			}
			return run(t)
		})
	})
}

// observe observes the stack that a PUT names, or whose servers it describes. A stack
// that is not there yet is as good as one: a PUT comes before the stack does. So is a
// cloud that does not answer, because the parameters alone need none.
func (s *Service) observe(ctx context.Context, id string, spec api.InstanceSpec) (*stack.Observation, error) {
	o := &stack.Observation{Request: stack.Request{InstanceID: id, StackID: spec.StackID, Inline: spec.Topology, VIM: spec.VimConnectionInfo}}
	err := s.Runner.Peek(id, func(t *tx.Tx, found bool) error {
		switch {
		case !found:
			return nil
		case spec.StackID == "" && spec.Topology == nil:
			o.AsKnown(t)
			return nil
		}
		d, err := desired.Record(t)
		if err != nil {
			return err
		}
		return o.Complete(t, d)
	})
	if err != nil {
		return nil, err
	}
	if err := s.Observer.Observe(ctx, o, stack.Briefly); err != nil {
		return nil, err
	}
	return o, o.Whole()
}

// validateBefore validates the files that are there already for the parameters of a
// PUT, and again only those that were not validated for the same ones before.
func (s *Service) validateBefore(id string, text json.RawMessage, p *params.Params) (map[string]packagefile.Result, error) {
	d, files, err := s.uses(id)
	if err != nil {
		return nil, err
	}
	if d != nil && desired.SameJSON(d.Raw, text) {
		files = slices.DeleteFunc(files, func(f store.File) bool { return f.ValidatedFor == desired.ValidatedFor(d.Desired) })
	}
	return s.Files.Validate(p, files)
}

// putting is a PUT.
type putting struct {
	s       *Service
	spec    api.InstanceSpec
	params  *params.Params
	stack   *stack.Observation
	results map[string]packagefile.Result
	created bool
}

// create begins an instance, with its join token.
func (p *putting) create(t *tx.Tx, id string) error {
	t.Instance = store.Instance{ID: id, Kind: kindOf(p.params), State: api.NotInstantiated, Epoch: t.Store.Epoch(), CreatedAt: t.Now, UpdatedAt: t.Now}
	t.Changed()
	return p.s.JoinTokens.NewJoinToken(t.Tx, &t.Instance)
}

func (p *putting) run(t *tx.Tx) error {
	if err := p.s.Observer.Current(t, p.stack); err != nil {
		return err
	}
	if kind := kindOf(p.params); kind != t.Instance.Kind {
		return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
			"VNF instance %s is a %s and the parameters describe a %s; use another id for it", t.Instance.ID, t.Instance.Kind, kind))
	}
	next, err := p.next(t)
	if err != nil {
		return err
	}
	out, err := p.check(t, next)
	if err != nil {
		return err
	}
	held, err := p.s.held(t, out.Nodes)
	if err != nil {
		return err
	}
	if _, err := desired.Activate(t, next, ""); err != nil {
		return err
	}
	if err := packagefile.Record(t, p.results, desired.ValidatedFor(next)); err != nil || !t.Dirty() {
		return err
	}
	if err := p.keeps(t, held); err != nil {
		return err
	}
	return p.s.Reconciler.ReconcileAndFinish(t)
}

// next is the desired state after the request.
func (p *putting) next(t *tx.Tx) (store.Desired, error) {
	var next store.Desired
	if t.Instance.DesiredVersion != 0 {
		var err error
		if next, err = desired.Record(t); err != nil {
			return next, err
		}
	}
	next.StackID, next.StackName = p.stack.ID(next)
	if found := p.stack.Topology(); found != nil {
		next.Topology = found
	}
	var err error
	if next.AdditionalParams, err = desired.Reseal(t.Store, next.AdditionalParams, p.spec.AdditionalParams); err != nil {
		return next, err
	}
	next.VIMConnectionInfo, err = desired.Reseal(t.Store, next.VIMConnectionInfo, p.spec.VimConnectionInfo)
	return next, err
}

// check holds the parameters against the topology, whichever of them is new, and returns
// their plan. Files are not validated for new parameters yet.
func (p *putting) check(t *tx.Tx, next store.Desired) (plan.Output, error) {
	out, err := p.s.Reconciler.Plan(t, &desired.State{Desired: next, Params: p.params})
	if err != nil {
		return out, err
	}
	foreign, err := reconcile.ForeignServers(t, next.Topology)
	if err != nil {
		return out, err
	}
	if err := api.Invalid(p.placed(append(out.Faults, foreign...))); err != nil {
		return out, err
	}
	return out, reconcile.KeepsTargets(t, out.Nodes)
}

// placed is faults of the topology where the request has what is new, if it has no topology.
func (p *putting) placed(faults fault.List) fault.List {
	switch {
	case p.stack.Topology() == nil:
		return faults.StandAt(desired.AtParams) // its parameters are what is new
	case p.spec.Topology == nil:
		return faults.StandAt(desired.AtStack)
	}
	return faults
}

func kindOf(p *params.Params) api.VNFKind {
	if p.Registry != nil {
		return api.PrivateRegistry
	}
	return api.KubernetesCluster
}
