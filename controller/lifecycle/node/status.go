// Package node takes what nodes report: signs of life, statuses, and the documents that
// they poll for.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Service keeps nodes. Its fields are set before use; its methods may be called at the
// same time. Errors that a client should see are *api.Problem.
type Service struct {
	Runner     *tx.Runner
	Reconciler *reconcile.Reconciler
	Presence   *presence.Presence
	Log        *slog.Logger
	// Wanted is the agent that a node is told to become, nil for none.
	Wanted func(n store.Node, agent api.Agent) (*api.WantedAgent, error)
	// SizeDiffers is called after a node has reported a disk of another size than its
	// volume.
	SizeDiffers func(instanceID string)
	// Silent is called after a node of the instance has fallen silent, or lost its identity.
	Silent func(instanceID string)

	// toldAt is when nodes that were lost or are back were told last. Only Sweep, which runs once
	// at a time, uses it.
	toldAt time.Time
}

// Seen notes that the node has called just now.
func (s *Service) Seen(nodeID string) {
	if !s.Presence.Seen(nodeID) {
		return
	}
	s.Runner.Hub.Changed(notify.Nodes)
	if err := s.presenceChanged(context.Background(), nodeID); err != nil {
		s.Log.Error("an instance cannot be planned again after a node came back", "node", nodeID, "error", err)
	}
}

// NodeChanged reconciles after a change of a node's identity, and wakes the node's poll.
func (s *Service) NodeChanged(nodeID string) {
	s.Runner.Hub.Changed(nodeID, notify.Nodes)
	node, err := s.node(nodeID)
	if err == nil {
		if node.Identity.Live() {
			s.Presence.Enrolled(nodeID, node.Identity.EnrolledAt)
		} else {
			s.Silent(node.InstanceID)
		}
		err = s.Reconciler.NodeChanged(context.Background(), node)
	}
	if err != nil {
		s.Log.Error("an instance cannot be planned again after a node's identity changed", "node", nodeID, "error", err)
	}
}

// ReportStatus takes what a node reports. Only what differs from the last report is
// written: a heartbeat and an activity stay in memory. What a node reports of
// another epoch is kept for people and counts for nothing. What it says of the cluster counts
// of masters alone, and has a secret: it is not kept with the status.
func (s *Service) ReportStatus(ctx context.Context, nodeID string, status api.NodeStatus) error {
	s.Seen(nodeID)
	if s.Presence.Doing(nodeID, status.Activity) {
		s.Runner.Hub.Changed(notify.Nodes)
	}
	said := status.Cluster
	status.Activity, status.Cluster = nil, nil
	node, err := s.node(nodeID)
	if node.Role != api.RoleMaster {
		said = nil
	}
	if err != nil || said == nil && !news(node, status) {
		return err
	}
	return s.Runner.Update(ctx, node.InstanceID, func(t *tx.Tx) error {
		node, found, err := t.Nodes().Get(nodeID)
		if err != nil || !found || node.InstanceID != t.Instance.ID {
			return err
		}
		before := node
		if news(node, status) {
			if err := s.keep(t, &node, status); err != nil {
				return err
			}
		}
		return s.Reconciler.Reported(t, before, node, said)
	})
}

// keep makes a report the status of the node.
func (s *Service) keep(t *tx.Tx, node *store.Node, status api.NodeStatus) error {
	if o := node.AgentOffer; o != nil && !o.Answered && !store.Same(upgradeOf(node.Status), status.AgentUpgrade) {
		answered := *o
		answered.Answered = true
		node.AgentOffer = &answered
	}
	node.Status, node.StatusOf = &status, enrolledAt(*node)
	if agent := s.Presence.Said(node.ID); agent != nil {
		node.Agent = agent
	}
	t.Changed(notify.Nodes)
	if sizeDiffers(*node) {
		t.OnCommit(func() { s.SizeDiffers(node.InstanceID) })
	}
	return t.Nodes().Put(node.ID, *node)
}

func upgradeOf(s *api.NodeStatus) *api.AgentUpgrade {
	if s == nil {
		return nil
	}
	return s.AgentUpgrade
}

// news reports whether the report says anything that the record does not. The time of
// a transition is none: an agent that restarted counts it anew.
func news(n store.Node, reported api.NodeStatus) bool {
	return n.Status == nil || !n.StatusOf.Equal(enrolledAt(n)) || !store.Same(timeless(*n.Status), timeless(reported))
}

// sizeDiffers says whether the node reports a disk of another size than its volume.
func sizeDiffers(n store.Node) bool {
	c := n.Status.Condition(api.ConditionVolumesMounted)
	return c != nil && c.Reason == api.ReasonSizeMismatch
}

func timeless(s api.NodeStatus) api.NodeStatus {
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = time.Time{}
	}
	return s
}

func enrolledAt(n store.Node) time.Time {
	if n.Identity == nil {
		return time.Time{}
	}
	return n.Identity.EnrolledAt
}

// Start has the silence of every node with an identity count from now on, and notes the
// expected nodes without one and the sizes that differ.
func (s *Service) Start() error {
	s.Presence.Start()
	return s.Runner.Store.View(func(t *store.Tx) error {
		return t.Nodes().Each(func(n store.Node) {
			switch {
			case n.Identity.Live():
				s.Presence.Expect(n.ID)
			case n.Expected:
				s.Silent(n.InstanceID)
			}
			if sizeDiffers(n) {
				s.SizeDiffers(n.InstanceID)
			}
		})
	})
}

// Sweep notices lost nodes, and tells which were lost and are back.
func (s *Service) Sweep(ctx context.Context) error {
	lost := s.Presence.NewlyLost()
	told := s.tell()
	if len(lost) == 0 {
		return told
	}
	s.Runner.Hub.Changed(notify.Nodes)
	return errors.Join(told, s.presenceChanged(ctx, lost...))
}

// presenceChanged plans again if a master or storage server fell silent or came back. Another
// master may have to speak for the cluster, and a storage server's report counts only while
// it is present. Any server that fell silent may have left.
func (s *Service) presenceChanged(ctx context.Context, ids ...string) error {
	instances := map[string]bool{}
	err := s.Runner.Store.View(func(t *store.Tx) error {
		for _, id := range ids {
			n, found, err := t.Nodes().Get(id)
			if err != nil {
				return err
			}
			if found && reconcile.Planned(n.Role) {
				instances[n.InstanceID] = true
			}
			if found && s.Presence.Lost(id) {
				s.Silent(n.InstanceID)
			}
		}
		return nil
	})
	for id := range instances {
		err = errors.Join(err, s.Reconciler.Reconcile(ctx, id))
	}
	return err
}

// Version is what a poll is compared with: it is answered if one of these is another one.
type Version struct {
	// Digest and Generation are of the node's document.
	Digest     string
	Generation int64
	// Wanted is the agent that the node is told to become, nil for none.
	Wanted *api.WantedAgent
}

// NodeVersion is the version for a node with this agent, without unsealing the document.
func (s *Service) NodeVersion(_ context.Context, nodeID string, agent api.Agent) (Version, error) {
	node, err := s.node(nodeID)
	if err != nil {
		return Version{}, err
	}
	return s.version(node, agent)
}

func (s *Service) version(n store.Node, agent api.Agent) (v Version, err error) {
	v.Digest, v.Generation = n.Digest, n.Generation
	v.Wanted, err = s.Wanted(n, agent)
	return v, err
}

// Polled is NodeVersion for a poll whose agent says this of itself. If that changes what is
// withheld from the node it is written first, with the document that follows from it: so no
// poll is answered with more than its agent understands. Else it is written with the node's
// next report, so that a fleet costs no write more.
func (s *Service) Polled(ctx context.Context, nodeID string, agent api.Agent) (Version, error) {
	node, err := s.node(nodeID)
	if err != nil {
		return Version{}, err
	}
	if node.Agent != nil && node.Agent.Equal(agent) {
		s.Presence.Says(nodeID, nil)
		return s.version(node, agent)
	}
	s.Presence.Says(nodeID, &agent)
	if agent.UnderstandsAll() && (node.Agent == nil || node.Agent.UnderstandsAll()) {
		return s.version(node, agent)
	}
	err = s.Runner.Update(ctx, node.InstanceID, func(t *tx.Tx) error {
		node, found, err := t.Nodes().Get(nodeID)
		if err != nil || !found || node.InstanceID != t.Instance.ID {
			return err
		}
		node.Agent = &agent
		t.Changed(notify.Nodes)
		if err := t.Nodes().Put(nodeID, node); err != nil {
			return err
		}
		return s.Reconciler.ReconcileAndFinish(t)
	})
	if err != nil {
		return Version{}, err
	}
	return s.NodeVersion(ctx, nodeID, agent)
}

// NodeConfig is the document of a node and its digest.
func (s *Service) NodeConfig(_ context.Context, nodeID string) (config api.NodeConfig, digest string, err error) {
	node, err := s.node(nodeID)
	if err != nil {
		return config, "", err
	}
	config, err = reconcile.Document(s.Runner.Store, node)
	return config, node.Digest, err
}

// NodeReads reports whether the present document of the node names the file with this
// SHA-256.
func (s *Service) NodeReads(_ context.Context, nodeID, sha256 string) bool {
	node, err := s.node(nodeID)
	return err == nil && slices.Contains(node.Files, sha256)
}

func (s *Service) node(id string) (store.Node, error) {
	var node store.Node
	err := s.Runner.Store.View(func(t *store.Tx) (err error) {
		node, err = nodeOf(t, id)
		return err
	})
	return node, err
}

func nodeOf(t *store.Tx, id string) (store.Node, error) {
	node, found, err := t.Nodes().Get(id)
	if err == nil && !found {
		err = api.NewProblem(api.ProblemNotFound, fmt.Sprintf(
			"there is no node %s; a node is a server that the topology of a VNF instance names", id))
	}
	return node, err
}
