// Package clusteraccess keeps a service account in the cluster with which a VIM uses it, on
// the master that speaks for the cluster, and reports its token. The token is in this
// process's memory and in the status that the controller gets, and nowhere else: an agent
// that starts again asks for another one. The earlier one stays valid until its end.
package clusteraccess

import (
	"context"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options of the step. Host is required.
type Options struct {
	Host *host.Host
	// Kubeconfig is a path; "" means kubeapi.AdminKubeconfig.
	Kubeconfig string
	// RequestLimit is how long one request may take; 0 = kubeapi.DefaultRequestLimit.
	RequestLimit time.Duration
	// Now is the clock of the token; nil = time.Now.
	Now func() time.Time
}

// step owns ClusterAccessReady.
type step struct {
	access kubeapi.Access
	now    func() time.Time
	token  token // the last one
}

// New returns the step that owns ClusterAccessReady.
func New(o Options) converge.Step {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &step{now: o.Now, access: kubeapi.Access{
		Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit,
		Rights: "get, create and patch the service account, cluster role and cluster role binding " + name + ", to grant what they grant, and to request tokens",
	}}
}

func (s *step) Condition() string { return api.ConditionClusterAccessReady }

// ClusterScoped makes the engine act only for a document that the controller has
// confirmed on the present connection: the rights of before may be more than those of now.
func (s *step) ClusterScoped() {}

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.ClusterAccess == nil {
		s.token = token{}
		return converge.Plan{HandsOff: true}, nil
	}
	plan, err := s.plan(ctx, desired.ClusterAccess)
	plan.Cluster = s.token.facts() // it stays valid while the API server is down
	return plan, err
}

func (s *step) plan(ctx context.Context, section *api.ClusterAccessSection) (converge.Plan, error) {
	c, err := s.access.Connect()
	if err != nil {
		return converge.Plan{}, err
	}
	plan := converge.Plan{Reason: api.ReasonAccessGranted, Message: "the service account has the rights of role " + string(section.Role)}
	for _, want := range objects(section.Role) {
		live, err := get(ctx, c, want)
		if err != nil {
			return converge.Plan{}, err
		}
		if want.kind == serviceAccounts && (live == nil || live.GetUID() != s.token.account) {
			s.token = token{} // it was another account's
		}
		if live == nil || !contains(live.Object, want.Object) {
			plan.Actions = append(plan.Actions, action("apply "+want.GetKind()+" "+name, func(ctx context.Context) error { return apply(ctx, c, want) }))
		}
	}
	if s.token.due(s.now()) {
		plan.Actions = append(plan.Actions, action("request a token of service account "+name, func(ctx context.Context) error { return s.request(ctx, c) }))
	}
	return plan, nil
}

// action is one of those that depend on one another.
func action(summary string, do func(context.Context) error) converge.Action {
	return converge.Action{Summary: summary, Group: name, Do: do}
}
