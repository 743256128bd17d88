// Package clustermembers keeps the cluster's members current, on the master that speaks for
// the cluster: a server without a Node has a valid bootstrap token, a master without one finds the
// certificates of the control plane, each Node names its server, and the Node and the etcd member
// of a deleted server are removed.
//
// It deletes a Node only if nodehitch has annotated it, the server that the annotation
// names is not listed and is the Node's own, and the Node is not Ready. It removes an etcd member
// without a Node only as strays says.
package clustermembers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options of the step. Host is required.
type Options struct {
	Host *host.Host
	// Kubeadm gives the certificates to masters that join, if nodehitch makes the cluster.
	Kubeadm *kubeadm.Machine
	// Kubeconfig is a path; "" means kubeapi.AdminKubeconfig.
	Kubeconfig string
	// RequestLimit is how long one request may take; 0 = kubeapi.DefaultRequestLimit.
	RequestLimit time.Duration
	// EtcdEndpoint is the URL of etcd; "" = etcd.DefaultEndpoint.
	EtcdEndpoint string
	// Now is the clock of bootstrap tokens; nil = time.Now.
	Now func() time.Time
}

// step owns ClusterMembersCurrent.
type step struct {
	access  kubeapi.Access
	etcd    etcd.Access
	sick    etcd.Sick // while a member of etcd is of no machine, as far as each plan has asked
	kubeadm *kubeadm.Machine
	now     func() time.Time
}

// New returns the step that owns ClusterMembersCurrent.
func New(o Options) converge.Step {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &step{
		access: kubeapi.Access{
			Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit,
			Rights: "list, patch and delete nodes, and list, create, patch and delete secrets in kube-system",
		},
		etcd:    etcd.Access{Host: o.Host, Endpoint: o.EtcdEndpoint},
		sick:    etcd.Sick{},
		kubeadm: o.Kubeadm,
		now:     o.Now,
	}
}

func (s *step) Condition() string { return api.ConditionClusterMembersCurrent }

// ClusterScoped makes the engine act only for a document that the controller has
// confirmed on the present connection: a master that was offline must not let in, or
// remove, members of before.
func (s *step) ClusterScoped() {}

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	before := maps.Clone(s.sick)
	clear(s.sick) // strays puts back what it goes on with
	if desired.ClusterMembers == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	c, err := s.access.Connect()
	if err != nil {
		return converge.Plan{}, err
	}
	u := &update{Client: c, now: s.now().UTC(), members: desired.ClusterMembers.Members, etcd: &s.etcd, kubeadm: s.kubeadm, sick: s.sick, before: before}
	if desired.ClusterDepartures != nil {
		u.leaving = desired.ClusterDepartures.Members
	}
	if u.nodes, err = c.ListNodes(ctx); err != nil {
		return converge.Plan{}, err
	}
	if u.tokens, err = u.listTokens(ctx); err != nil {
		return converge.Plan{}, err
	}
	joined := u.current()
	err = errors.Join(u.certificates(ctx, s.kubeadm, desired), u.gone(ctx), u.strays(ctx, desired))
	return converge.Plan{
		Actions: u.actions, Reason: api.ReasonMembersCurrent,
		Message: fmt.Sprintf("%d of %d members have a Node%s", joined, len(u.members), u.said),
	}, err
}

// update is one plan.
type update struct {
	*kubeapi.Client
	now     time.Time
	members []api.ClusterMember
	leaving []api.ClusterServer
	nodes   []kubeapi.Node
	tokens  []secret
	etcd    *etcd.Access
	kubeadm *kubeadm.Machine
	sick    etcd.Sick // the step's
	before  etcd.Sick // as it was after the last plan

	actions []converge.Action
	said    string // of members of etcd that are not nodehitch's
}

// current plans the tokens and the annotations of the listed members, and returns how many
// of them have a Node.
func (u *update) current() (joined int) {
	var valid []string // secrets that stay
	for _, m := range u.members {
		own := slices.DeleteFunc(slices.Clone(u.nodes), func(n kubeapi.Node) bool { return !n.Of(m.ServerID) })
		for _, n := range own {
			u.annotate(n, m)
		}
		if len(own) > 0 {
			joined++
		} else if !u.leaves(m.ServerID) {
			valid = append(valid, secretName(m.BootstrapToken))
			u.token(m)
		}
	}
	for _, t := range u.tokens {
		if !slices.Contains(valid, t.GetName()) {
			u.deleteToken(t)
		}
	}
	return joined
}

// hasNode reports whether the server has a Node.
func (u *update) hasNode(serverID string) bool {
	return slices.ContainsFunc(u.nodes, func(n kubeapi.Node) bool { return n.Of(serverID) })
}

// leaves reports whether the server leaves in order, which another step sees to.
func (u *update) leaves(serverID string) bool {
	return slices.ContainsFunc(u.leaving, func(s api.ClusterServer) bool { return s.ServerID == serverID })
}

func (u *update) listed(serverID string) bool {
	return slices.ContainsFunc(u.members, func(m api.ClusterMember) bool { return m.ServerID == serverID })
}

func (u *update) do(group, summary string, f func(context.Context) error) {
	u.actions = append(u.actions, converge.Action{Summary: summary, Group: group, Do: f})
}
