// Package clusterdepartures lets members leave the cluster before their servers are deleted,
// on the master that speaks for the cluster: it cordons their Nodes, evicts the Pods,
// removes the etcd members of masters, and deletes the Nodes.
//
// Nothing is lost that others can keep. A Pod is evicted, so PodDisruptionBudgets hold; one
// that nothing would make again refuses the departure, unless the section allows it. No etcd
// member is removed without which the others have no quorum. No Node is deleted, and no etcd
// member removed, before all Nodes that leave are drained: until then, everything can be
// taken back.
package clusterdepartures

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
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
	// DrainLimit is how long one pass waits until evicted Pods have ended; 0 = 30 seconds.
	DrainLimit time.Duration
	// EtcdEndpoint is the URL of etcd; "" = etcd.DefaultEndpoint.
	EtcdEndpoint string
}

// step owns ClusterMembersLeft.
type step struct {
	access kubeapi.Access
	etcd   etcd.Access
	limit  time.Duration
}

// New returns the step that owns ClusterMembersLeft.
func New(o Options) converge.Step {
	if o.DrainLimit == 0 {
		o.DrainLimit = 30 * time.Second
	}
	return &step{
		access: kubeapi.Access{
			Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit,
			Rights: "list, patch and delete nodes, list pods, and create evictions",
		},
		etcd:  etcd.Access{Host: o.Host, Endpoint: o.EtcdEndpoint},
		limit: o.DrainLimit,
	}
}

func (s *step) Condition() string { return api.ConditionClusterMembersLeft }

// ClusterScoped makes the engine act only for a document that the controller has confirmed
// on the present connection: a master that was offline must not drain the Nodes of an
// operation that was taken back.
func (s *step) ClusterScoped() {}

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	section := desired.ClusterDepartures
	if section == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	c, err := s.access.Connect()
	if err != nil {
		return converge.Plan{}, err
	}
	nodes, err := c.ListNodes(ctx)
	if err != nil {
		return converge.Plan{}, err
	}
	d := &departures{Client: c, section: section, limit: s.limit}
	d.uncordon(nodes)
	err = d.leave(ctx, nodes, &s.etcd)
	message := "no member is to leave"
	if count := len(section.Members); count > 0 {
		message = fmt.Sprintf("all members that are to leave have left: %d", count)
	}
	return converge.Plan{Actions: d.actions, Reason: api.ReasonMembersLeft, Message: message}, err
}

// departures is one plan.
type departures struct {
	*kubeapi.Client
	section *api.ClusterDeparturesSection
	limit   time.Duration
	quorum  *quorum
	actions []converge.Action
}

// leave plans what is left to do for the members that are to leave. Whoever refuses, refuses
// before anything is done, unless the section is forced.
func (d *departures) leave(ctx context.Context, nodes []kubeapi.Node, access *etcd.Access) error {
	if len(d.section.Members) == 0 {
		return nil
	}
	leaving := nodesOf(d.section.Members, nodes)
	var err error
	if d.quorum, err = ask(ctx, access, d.section.Members, leaving); err != nil {
		return err
	}
	atRisk := d.quorum.check()
	if atRisk != nil && !d.section.Force {
		return atRisk
	}
	pods, err := d.pods(ctx, leaving)
	if err != nil {
		return err
	}
	for _, n := range leaving {
		d.cordon(n)
	}
	if len(pods) > 0 {
		d.do("drain "+names(leaving), func(ctx context.Context) error { return d.drain(ctx, leaving) })
	}
	if atRisk == nil {
		for _, m := range d.quorum.leaving {
			d.do("remove the etcd member "+m.Name, func(ctx context.Context) error { return d.quorum.remove(ctx, m) })
		}
	}
	for _, n := range leaving {
		d.do("delete Node "+n.GetName(), func(ctx context.Context) error { return d.delete(ctx, n) })
	}
	return atRisk
}

// nodesOf are the Nodes of these servers.
func nodesOf(servers []api.ClusterServer, nodes []kubeapi.Node) (list []kubeapi.Node) {
	for _, n := range nodes {
		if of(servers, n) {
			list = append(list, n)
		}
	}
	return list
}

// of reports whether the Node is of one of these servers.
func of(servers []api.ClusterServer, n kubeapi.Node) bool {
	for _, s := range servers {
		if n.Of(s.ServerID) {
			return true
		}
	}
	return false
}

func names(nodes []kubeapi.Node) string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.GetName())
	}
	return "Nodes " + strings.Join(list, ", ")
}

// do plans an action. None follows one that has failed.
func (d *departures) do(summary string, f func(context.Context) error) {
	d.actions = append(d.actions, converge.Action{Summary: summary, Group: "leave", Do: f})
}

// explain turns the API server's error into the reason of the condition.
func (d *departures) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err):
		return converge.Wait(api.ReasonConverging, "it was changed while the agent compared it: %v", err)
	}
	return d.Explain(err)
}
