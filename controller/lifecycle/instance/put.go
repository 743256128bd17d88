package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/lifecycle/plan"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/naming"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// PutInstance makes an instance, or gives it other parameters. What the request
// leaves out (name, labels, topology, stackId, vimConnectionInfo) stays as it is. Faults are all
// reported at once and nothing is kept; the same content again changes nothing. Nothing
// is changed unless the conditions hold.
func (s *Service) PutInstance(ctx context.Context, id string, spec api.InstanceSpec, conditions ...Condition) (api.Instance, bool, error) {
	created, err := s.change(ctx, id, spec, conditions, (*putRequest).put)
	if err != nil {
		return api.Instance{}, false, err
	}
	s.Accepted(id)
	instance, err := s.GetInstance(ctx, id)
	return instance, created, err
}

// change loads a PUT and runs its change in one transaction on the instance, which it makes if
// there is none: then it says created, also with an error.
func (s *Service) change(ctx context.Context, id string, spec api.InstanceSpec, conditions []Condition, run func(*putRequest, *tx.Tx) error) (created bool, err error) {
	err = s.Observer.Try(id, func() error {
		p, err := s.load(ctx, id, spec, conditions)
		if err != nil {
			return err
		}
		return s.Runner.Upsert(ctx, id, func(t *tx.Tx, found bool) error {
			if err := p.checkUnchanged(t, found); err != nil {
				return err
			}
			if created = !found; created {
				if err := p.create(t, id); err != nil {
					return err
				}
			}
			return run(p, t)
		})
	})
	return created, err
}

// putRequest is a PUT, with all that its checks and its change need.
type putRequest struct {
	s          *Service
	spec       api.InstanceSpec
	conditions []Condition
	// parameters are those of the spec, with the secrets that are kept.
	parameters desired.Parameters
	// before is the instance for which the conditions hold, nil for none.
	before *api.Instance
	// stack is what the request or Heat says of it.
	stack *stack.Observation
	// results are those of the files that are there already.
	results map[string]packagefile.Result
}

// load reads what the PUT needs: it refuses its faults, checks its conditions against the
// instance, observes the stack and validates the files. Nothing is set later.
func (s *Service) load(ctx context.Context, id string, spec api.InstanceSpec, conditions []Condition) (*putRequest, error) {
	p := &putRequest{s: s, spec: spec, conditions: conditions}
	var err error
	// What is read after this is of the version that the observation is for, or is overtaken with it.
	if p.stack, err = s.observation(id, spec); err != nil {
		return nil, err
	}
	var faults fault.List
	if p.parameters, faults, err = s.ReadParameters(id, spec.AdditionalParams); err != nil {
		return nil, err
	}
	faults = slices.Concat(naming.Check(spec.Name, spec.Labels), faults, topology.Validate(spec.Topology, desired.AtTopology),
		params.CheckVIMConnectionInfo(spec.VimConnectionInfo, fault.Root.Key("vimConnectionInfo")),
		topology.CheckStackID(spec.StackID, spec.Topology, desired.AtTopology))
	if err := api.Invalid(faults); err != nil {
		return nil, err
	}
	err = s.Runner.Peek(id, func(t *tx.Tx, found bool) (err error) {
		p.before, err = s.checkConditions(t, found, conditions)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A stack that is not there yet is as good as one: a PUT comes before the stack does. So is
	// a cloud that does not answer, because the parameters alone need none.
	if err := s.Observer.Observe(ctx, p.stack, stack.Briefly); err != nil {
		return nil, err
	}
	if err := p.stack.Whole(); err != nil {
		return nil, err
	}
	p.results, err = s.validateBefore(id, p.parameters)
	return p, err
}

// observation is to be one of the stack that a PUT names, or whose servers it describes.
func (s *Service) observation(id string, spec api.InstanceSpec) (*stack.Observation, error) {
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
	return o, err
}

// validateBefore validates the files that are there already for the parameters of a
// PUT, and again only those that were not validated for the same ones before.
func (s *Service) validateBefore(id string, p desired.Parameters) (map[string]packagefile.Result, error) {
	d, files, architectures, err := s.uses(id)
	if err != nil {
		return nil, err
	}
	if d != nil && desired.SameJSON(d.Raw, p.Raw) {
		files = slices.DeleteFunc(files, func(f store.File) bool { return f.ValidatedFor == desired.ValidatedFor(d.Desired) })
	}
	return s.Files.Validate(p.Params, files, architectures)
}

// checkUnchanged begins the PUT anew if the instance is no longer the one for which the
// conditions were checked.
func (p *putRequest) checkUnchanged(t *tx.Tx, found bool) error {
	if len(p.conditions) == 0 {
		return nil
	}
	now, _, err := p.s.storedIf(t, found)
	if err == nil && !store.Same(now, p.before) {
		err = stack.ErrOvertaken
	}
	return err
}

// create begins an instance, with its join token.
func (p *putRequest) create(t *tx.Tx, id string) error {
	t.Instance = store.Instance{ID: id, Kind: kindOf(p.parameters.Params), State: api.NotInstantiated, Epoch: t.Store.Epoch(), CreatedAt: t.Now, UpdatedAt: t.Now}
	t.Changed()
	return p.s.JoinTokens.NewJoinToken(t.Tx, &t.Instance)
}

// put puts in force what is desired after the request, and reconciles.
func (p *putRequest) put(t *tx.Tx) error {
	if err := p.s.Observer.Current(t, p.stack); err != nil {
		return err
	}
	if kind := kindOf(p.parameters.Params); kind != t.Instance.Kind {
		return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
			"%s is a %s and the parameters describe a %s; use another id for it", t.Instance.Title(), t.Instance.Kind, kind))
	}
	p.naming(t)
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
	if err := p.keepsBound(t, held); err != nil {
		return err
	}
	return p.s.Reconciler.ReconcileAndFinish(t)
}

// naming gives the instance the name and the labels of the request, if it has any.
func (p *putRequest) naming(t *tx.Tx) {
	name, labels := t.Instance.Name, t.Instance.Labels
	if p.spec.Name != nil {
		name = *p.spec.Name
	}
	if p.spec.Labels != nil {
		labels = p.spec.Labels
	}
	if name == t.Instance.Name && maps.Equal(labels, t.Instance.Labels) {
		return
	}
	t.Changed()
	if name != t.Instance.Name { // their answers show it
		t.Changed(notify.Nodes, notify.Operations, notify.Volumes)
	}
	t.Instance.Name, t.Instance.Labels, t.Instance.UpdatedAt = name, labels, t.Now
}

// next is the desired state after the request.
func (p *putRequest) next(t *tx.Tx) (store.Desired, error) {
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
	if next.AdditionalParams, err = p.parameters.Reseal(t.Store, next.AdditionalParams); err != nil {
		return next, err
	}
	next.VIMConnectionInfo, err = desired.Reseal(t.Store, next.VIMConnectionInfo, p.spec.VimConnectionInfo)
	return next, err
}

// check holds the parameters against the topology, whichever of them is new, and returns
// their plan. Files are not validated for new parameters yet.
func (p *putRequest) check(t *tx.Tx, next store.Desired) (plan.Output, error) {
	out, _, err := p.s.Reconciler.Plan(t, &desired.State{Desired: next, Parameters: p.parameters})
	if err != nil {
		return out, err
	}
	foreign, err := reconcile.ForeignServers(t, next.Topology)
	if err != nil {
		return out, err
	}
	running, err := p.checkRunning(t)
	if err != nil {
		return out, err
	}
	if err := api.Invalid(append(p.placed(append(out.Faults, foreign...)), running...)); err != nil {
		return out, err
	}
	return out, p.s.Reconciler.KeepsTargets(t, out)
}

// checkRunning refuses what cannot be changed in a cluster that is there, versions of Kubernetes to
// which its members cannot be upgraded, and another first volume while PersistentVolumes are kept: those
// that are registered or, once the cluster is there, may have been made by others.
func (p *putRequest) checkRunning(t *tx.Tx) (faults fault.List, err error) {
	c := t.Instance.CarriedOver
	members, kept := len(c.Members) > 0, c.VolumeServer != "" && (c.Registered || t.Instance.State == api.Instantiated)
	if !members && !kept {
		return nil, nil
	}
	before, err := desired.InForce(t)
	if err != nil {
		return nil, err
	}
	if kept {
		faults = params.CheckFirstVolume(before.Params, p.parameters.Params, desired.AtParams)
	}
	if !members {
		return faults, nil
	}
	lowest, highest, err := reconcile.KubernetesVersions(t)
	return append(faults, params.CheckRunning(before.Params, p.parameters.Params, lowest, highest, desired.AtParams)...), err
}

// placed is faults of the topology where the request has what is new, if it has no topology.
func (p *putRequest) placed(faults fault.List) fault.List {
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
