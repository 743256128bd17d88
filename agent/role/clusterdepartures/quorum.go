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

// quorum is what etcd has of the members that leave and of those that stay.
type quorum struct {
	client *etcd.Client // nil: the control plane's etcd is not on its masters
	// leaving are the members to remove, those that are not healthy first: as long as they
	// count, they cost the others their quorum.
	leaving []etcd.Member
	staying []etcd.Member
	sick    map[string]error // why a member is not healthy, by its id
}

// ask looks for the etcd members of the servers that leave, and for the health of all if there
// are any.
func ask(ctx context.Context, access *etcd.Access, servers []api.ClusterServer, nodes []kubeapi.Node) (*quorum, error) {
	q := &quorum{sick: map[string]error{}}
	var err error
	if q.client, err = access.Open(); q.client == nil || err != nil {
		return q, err
	}
	all, err := q.client.Members(ctx)
	if err != nil {
		return q, err
	}
	for _, m := range all {
		if isOf(m, servers, nodes) {
			q.leaving = append(q.leaving, m)
		} else {
			q.staying = append(q.staying, m)
		}
	}
	if len(q.leaving) == 0 {
		return q, nil
	}
	for _, m := range all {
		if err := q.client.Healthy(ctx, m); err != nil {
			q.sick[m.ID] = err
		}
	}
	slices.SortStableFunc(q.leaving, func(a, b etcd.Member) int { return q.order(a) - q.order(b) })
	return q, nil
}

func (q *quorum) order(m etcd.Member) int {
	if q.sick[m.ID] != nil {
		return 0
	}
	return 1
}

// isOf reports whether the member is of one of these servers, or of its Node: the Node may be
// gone already, and the server's address is still its own.
func isOf(m etcd.Member, servers []api.ClusterServer, nodes []kubeapi.Node) bool {
	return slices.ContainsFunc(nodes, func(n kubeapi.Node) bool { return m.Of(n.GetName(), n.Addresses()) }) ||
		slices.ContainsFunc(servers, func(s api.ClusterServer) bool { return etcd.Member{PeerURLs: m.PeerURLs}.Of("", s.Addresses) })
}

// check refuses the departure if those that stay would have no quorum.
func (q *quorum) check() error {
	if len(q.leaving) == 0 {
		return nil
	}
	voters := slices.DeleteFunc(slices.Clone(q.staying), func(m etcd.Member) bool { return m.Learner })
	var sick []string
	for _, m := range voters {
		if err := q.sick[m.ID]; err != nil {
			sick = append(sick, fmt.Sprintf("%s: %v", m.Name, err))
		}
	}
	if healthy := len(voters) - len(sick); healthy < len(voters)/2+1 {
		return converge.Fail(api.ReasonQuorumAtRisk, "etcd would have %d members without those that leave, and %d of them are healthy; nothing is removed. %s",
			len(voters), healthy, strings.Join(sick, "; "))
	}
	return nil
}

// remove removes a member. etcd itself refuses for some seconds after one of the others was
// away.
func (q *quorum) remove(ctx context.Context, m etcd.Member) error {
	err := q.client.Remove(ctx, m.ID)
	if errors.Is(err, etcd.ErrQuorum) {
		return converge.Wait(api.ReasonConverging, "etcd keeps its member %s for now: %v", m.Name, err)
	}
	return err
}
