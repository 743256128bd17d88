// Package clusterdepartures lets members leave the cluster before their servers are deleted,
// on the master that speaks for the cluster: it cordons their Nodes, evicts the Pods,
// removes the etcd members of masters, and deletes the Nodes. The Nodes of members that are upgraded
// are cordoned and drained too, and stay.
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

// cluster is what both steps have.
type cluster struct {
	access kubeapi.Access
	limit  time.Duration
	now    func() time.Time
}

func (o Options) cluster(rights string) cluster {
	c := cluster{
		access: kubeapi.Access{Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit, Rights: rights},
		limit:  o.DrainLimit, now: o.Now,
	}
	if c.limit == 0 {
		c.limit = 10 * time.Second
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// step owns ClusterMembersLeft.
type step struct {
	cluster
	etcd etcd.Access
	sick etcd.Sick // while somebody is to leave
}

// New returns the step that owns ClusterMembersLeft.
func New(o Options) converge.Step {
	return &step{
		cluster: o.cluster("list, patch and delete nodes, list pods, and create evictions"),
		etcd:    etcd.Access{Host: o.Host, Endpoint: o.EtcdEndpoint}, sick: etcd.Sick{},
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
	drain, err := s.open(ctx, desired, section.DeleteUnmanagedPods, section.Force)
	if err != nil {
		return converge.Plan{}, err
	}
	d := &departures{drainage: drain, section: section, etcd: &s.etcd, sick: s.sick}
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
	*drainage
	section *api.ClusterDeparturesSection
	etcd    *etcd.Access
	sick    etcd.Sick // the step's
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
