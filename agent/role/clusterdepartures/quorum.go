package clusterdepartures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// quorum is what etcd has of the masters that leave.
type quorum struct {
	client *etcd.Client
	// leaving are the members to remove, those that are not healthy first: as long as they
	// count, they cost the others their quorum.
	leaving []etcd.Member
}

// masters are the servers that leave and may have an etcd member.
func (d *departures) masters() (list []api.ClusterServer) {
	for _, s := range d.section.Members {
		if d.desired.Cluster == nil || slices.ContainsFunc(d.desired.Cluster.Masters, func(m api.ClusterServer) bool { return m.ServerID == s.ServerID }) {
			list = append(list, s)
		}
	}
	return list
}

// ask looks for the etcd members of the masters that leave. The error says why they have to
// stay. etcd is asked only if a master leaves and the control plane's etcd is on the masters.
func (d *departures) ask(ctx context.Context) (quorum, error) {
	masters := d.masters()
	if len(masters) == 0 {
		return quorum{}, nil
	}
	client, err := d.etcd.Open()
	if client == nil || err != nil {
		return quorum{}, err
	}
	all, err := client.Members(ctx)
	if err != nil {
		return quorum{}, err
	}
	leaving := etcd.Of(all, machines(masters, nodesOf(masters, d.nodes)), d.stay())
	if len(leaving) == 0 {
		return quorum{}, nil
	}
	d.sick.Examine(ctx, client, all, d.now())
	slices.SortStableFunc(leaving, func(a, b etcd.Member) int { return d.order(a) - d.order(b) })
	if err := d.check(all, leaving); err != nil {
		return quorum{}, err
	}
	return quorum{client, leaving}, nil
}

// stay are the machines that keep their etcd members: the listed ones, and those of the Nodes
// that do not leave.
func (d *departures) stay() []etcd.Machine {
	var servers []api.ClusterServer
	if d.desired.ClusterMembers != nil {
		for _, m := range d.desired.ClusterMembers.Members {
			servers = append(servers, api.ClusterServer{Addresses: m.Addresses})
		}
	}
	return machines(servers, slices.DeleteFunc(slices.Clone(d.nodes), func(n kubeapi.Node) bool { return of(d.section.Members, n) }))
}

// machines are those of servers and of Nodes: the Node of a server may be gone already, and the
// server's name is not its Node's.
func machines(servers []api.ClusterServer, nodes []kubeapi.Node) (list []etcd.Machine) {
	for _, s := range servers {
		list = append(list, etcd.Machine{Addresses: s.Addresses})
	}
	for _, n := range nodes {
		list = append(list, etcd.Machine{Node: n.GetName(), Addresses: n.Addresses()})
	}
	return list
}

func (d *departures) order(m etcd.Member) int {
	if _, sick := d.sick[m.ID]; sick {
		return 0
	}
	return 1
}

// check refuses the departure if those that stay would have no quorum. While it may have been
// a passing failure, it waits.
func (d *departures) check(all, leaving []etcd.Member) error {
	voters, healthy, passing := 0, 0, 0
	var sick []string
	for _, m := range all {
		if m.Learner || slices.ContainsFunc(leaving, func(l etcd.Member) bool { return l.ID == m.ID }) {
			continue
		}
		voters++
		ill, isSick := d.sick[m.ID]
		switch {
		case !isSick:
			healthy++
			continue
		case !d.sick.Lost(m, d.now(), etcd.Patience):
			passing++
		}
		sick = append(sick, fmt.Sprintf("%s: %v", m.Name, ill.Why))
	}
	if needed := voters/2 + 1; healthy >= needed {
		return nil
	} else if healthy+passing >= needed {
		return converge.Wait(api.ReasonConverging, "etcd would have %d members without those that leave, and %d of them have answered that they are healthy; the others are asked again for %v. %s",
			voters, healthy, etcd.Patience, strings.Join(sick, "; "))
	}
	return converge.Fail(api.ReasonQuorumAtRisk, "etcd would have %d members without those that leave, and %d of them are healthy; none is removed. %s",
		voters, healthy, strings.Join(sick, "; "))
}

// remove removes a member. etcd itself refuses for some seconds after one of the others was
// away.
func (q quorum) remove(ctx context.Context, m etcd.Member) error {
	err := q.client.Remove(ctx, m.ID)
	if errors.Is(err, etcd.ErrQuorum) {
		return converge.Wait(api.ReasonConverging, "etcd keeps its member %s for now: %v", m.Name, err)
	}
	return err
}
