package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// listedFor is for how long a node is listed whose identity was revoked and that no topology
// names.
const listedFor = 24 * time.Hour

// ListNodes is the nodes of one instance, of every one for "", ordered by instance, role and
// id. Those that have left are among them only if all are wanted.
func (s *Service) ListNodes(_ context.Context, instanceID string, all bool) ([]api.Node, error) {
	list := []api.Node{}
	err := s.eachNode(instanceID, func(n store.Node, instance string) {
		if all || !s.left(n) {
			list = append(list, s.show(n, instance))
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b api.Node) int {
		return cmp.Or(cmp.Compare(a.VnfInstanceID, b.VnfInstanceID), cmp.Compare(a.Role, b.Role), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// left reports whether no topology names the node and it has had no identity for a day, or
// never had one.
func (s *Service) left(n store.Node) bool {
	switch {
	case n.Expected || n.Identity.Live():
		return false
	case n.Identity == nil:
		return true
	}
	return s.Runner.Now().Sub(*n.Identity.RevokedAt) >= listedFor
}

// eachNode calls fn with the nodes of one instance, of every one for "", and the instance's name.
func (s *Service) eachNode(instanceID string, fn func(n store.Node, instance string)) error {
	if instanceID == "" {
		return s.Runner.Store.View(func(t *store.Tx) error {
			names, err := t.InstanceNames()
			if err != nil {
				return err
			}
			return t.Nodes().Each(func(n store.Node) { fn(n, names[n.InstanceID]) })
		})
	}
	return s.Runner.View(instanceID, func(t *tx.Tx) error {
		nodes, err := t.InstanceNodes()
		for _, n := range nodes {
			fn(n, t.Instance.Name)
		}
		return err
	})
}

// GetNode is one node.
func (s *Service) GetNode(_ context.Context, id string) (api.Node, error) {
	var shown api.Node
	err := s.Runner.Store.View(func(t *store.Tx) error {
		n, err := nodeOf(t, id)
		if err != nil {
			return err
		}
		i, _, err := t.Instances().Get(n.InstanceID)
		shown = s.show(n, i.Name)
		return err
	})
	return shown, err
}

// show is a node as people see it, with the name of its instance.
func (s *Service) show(n store.Node, instance string) api.Node {
	out := api.Node{
		ID: n.ID, Name: n.Name, VnfInstanceID: n.InstanceID, VnfInstanceName: instance, Role: n.Role,
		Generation: n.Generation, Digest: n.Digest,
		State:       s.State(n),
		Ready:       n.Expected && progress.Ready(n, s.Runner.Store.Epoch()),
		Unconfirmed: n.Epoch != s.Runner.Store.Epoch(),
		Addresses:   append([]string{}, n.Addresses...),
		Withheld:    append([]api.Withheld{}, n.Withheld...),
	}
	seen, activity := s.Presence.Last(n.ID)
	if !seen.IsZero() {
		seen = seen.UTC()
		out.LastSeenAt = &seen
	}
	if n.Status != nil {
		status := *n.Status
		status.Activity = activity
		out.Status = &status
	}
	if id := n.Identity; id != nil && id.Serial != "" {
		out.CertificateSerial, out.CertificateNotAfter, out.EnrolledAt = id.Serial, &id.NotAfter, &id.EnrolledAt
		out.Attestation = id.Attestation
	}
	return out
}

// State is the node's state as people see it.
func (s *Service) State(n store.Node) api.NodeState {
	switch {
	case n.Identity.Live() && s.Presence.Lost(n.ID):
		return api.NodeLost
	case n.Identity.Live():
		return api.NodeEnrolled
	case n.Identity == nil && n.Expected, n.MayReenroll:
		return api.NodeExpected
	}
	return api.NodeRevoked
}
