// Package clusterdepartures lets members leave the cluster before their servers are deleted,
// on the master that speaks for the cluster: it cordons their Nodes, evicts the Pods,
// removes the etcd members of masters, and deletes the Nodes.
//
// Nothing is lost that others can keep. A Pod is evicted, so PodDisruptionBudgets are respected; one
// that nothing would make again refuses the departure, unless the section allows it. No etcd
// member is removed without which the others have no quorum. A pass
// deletes Nodes and removes etcd members only if it finds all Nodes that leave cordoned and,
// unless the section is forced, drained: until then, everything can be taken back.
package clusterdepartures

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// DrainLimit is how long one pass evicts Pods and waits until they have ended; 0 = 10
	// seconds. A departure that is taken back meanwhile is taken back after it.
	DrainLimit time.Duration
	// EtcdEndpoint is the URL of etcd; "" = etcd.DefaultEndpoint.
	EtcdEndpoint string
	// Now is the clock by which Pods end and etcd members are healthy; nil = time.Now.
	Now func() time.Time
}

// step owns ClusterMembersLeft.
type step struct {
	access kubeapi.Access
	etcd   etcd.Access
	limit  time.Duration
	now    func() time.Time
	sick   map[string]unhealthy // of etcd's members, by their ids, while somebody is to leave
}

// New returns the step that owns ClusterMembersLeft.
func New(o Options) converge.Step {
	if o.DrainLimit == 0 {
		o.DrainLimit = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &step{
		access: kubeapi.Access{
			Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit,
			Rights: "list, patch and delete nodes, list pods, and create evictions",
		},
		etcd:  etcd.Access{Host: o.Host, Endpoint: o.EtcdEndpoint},
		limit: o.DrainLimit, now: o.Now, sick: map[string]unhealthy{},
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
	d := &departures{Client: c, step: s, desired: desired, section: section}
	if d.nodes, err = c.ListNodes(ctx); err != nil {
		return converge.Plan{}, err
	}
	d.uncordon()
	err = d.leave(ctx)
	message := "no member is to leave"
	if count := len(section.Members); count > 0 {
		message = fmt.Sprintf("all members that are to leave have left: %d", count)
	}
	return converge.Plan{Actions: d.actions, Reason: api.ReasonMembersLeft, Message: message}, err
}

// departures is one plan.
type departures struct {
	*kubeapi.Client
	*step
	desired *api.NodeConfig
	section *api.ClusterDeparturesSection
	nodes   []kubeapi.Node // all
	actions []converge.Action
}

// leave plans what is left to do for the members that are to leave. Whoever refuses, refuses
// before anything is done; by force, the masters stay whose etcd members have to.
func (d *departures) leave(ctx context.Context) error {
	if len(d.section.Members) == 0 {
		clear(d.sick)
		return nil
	}
	leaving := nodesOf(d.section.Members, d.nodes)
	q, refused := d.ask(ctx)
	if refused != nil && !d.section.Force {
		return refused
	}
	left, err := d.pods(ctx, leaving)
	if err != nil {
		return err
	}
	goes := leaving
	if refused != nil {
		goes = slices.DeleteFunc(slices.Clone(leaving), func(n kubeapi.Node) bool { return of(d.masters(), n) })
	}
	open := d.cordon(leaving)
	if open || len(left) > 0 { // a Pod may have come before the cordon
		d.do("drain "+names(leaving), func(ctx context.Context) error { return d.drain(ctx, leaving) })
	}
	if !open && (len(left) == 0 || d.section.Force) {
		d.remove(q, goes)
	}
	if len(goes) > 0 {
		return nil // by force, what refuses is said once everything else is done
	}
	return refused
}

// remove plans what cannot be taken back.
func (d *departures) remove(q quorum, nodes []kubeapi.Node) {
	for _, m := range q.leaving {
		d.do("remove the etcd member "+m.Name, func(ctx context.Context) error { return q.remove(ctx, m) })
	}
	for _, n := range nodes {
		d.do("delete Node "+n.GetName(), func(ctx context.Context) error { return d.DeleteNode(ctx, n) })
	}
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
