package lcm

import (
	"context"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Seen notes that the node has called just now.
func (s *Service) Seen(nodeID string) {
	if !s.presence.seen(nodeID, s.Now()) {
		return
	}
	s.Hub.Changed(notify.Nodes)
	if err := s.presenceChanged(context.Background(), nodeID); err != nil {
		s.Log.Error("planning again for a node that came back", "node", nodeID, "error", err)
	}
}

// NodeChanged looks again at a node whose identity has changed, and wakes its poll.
func (s *Service) NodeChanged(nodeID string) {
	s.Hub.Changed(nodeID, notify.Nodes)
	node, err := s.node(nodeID)
	if err == nil {
		if node.Identity.Live() {
			s.presence.enrolled(nodeID, node.Identity.EnrolledAt)
		}
		err = s.Reconcile(context.Background(), node.InstanceID)
	}
	if err != nil {
		s.Log.Error("looking again at a node whose identity changed", "node", nodeID, "error", err)
	}
}

// ReportStatus takes what a node reports. Only what differs from the last report is
// written: a heartbeat and an activity stay in memory. What a node reports of
// another epoch is kept for people and counts for nothing.
func (s *Service) ReportStatus(ctx context.Context, nodeID string, status api.NodeStatus) error {
	now := s.Now()
	s.Seen(nodeID)
	if s.presence.doing(nodeID, status.Activity, now) {
		s.Hub.Changed(notify.Nodes)
	}
	status.Activity = nil
	node, err := s.node(nodeID)
	if err != nil || !news(node, status) {
		return err
	}
	return s.update(ctx, node.InstanceID, func(u *unit) error {
		if err := u.putStatus(nodeID, status); err != nil {
			return err
		}
		// What one node has proven may release what another one waits for: such a
		// document is changed on the operation's behalf.
		e, err := u.follow()
		if err != nil {
			return err
		}
		return u.evaluate(e)
	})
}

func (u *unit) putStatus(nodeID string, status api.NodeStatus) error {
	node, found, err := u.tx.Nodes().Get(nodeID)
	if err != nil || !found || node.InstanceID != u.inst.ID || !news(node, status) {
		return err
	}
	node.Status, node.StatusOf = &status, enrolledAt(node)
	u.changed(notify.Nodes)
	return u.tx.Nodes().Put(nodeID, node)
}

// news says whether the report says anything that the record does not. The time of
// a transition is none: an agent that restarted counts it anew.
func news(n store.Node, reported api.NodeStatus) bool {
	return n.Status == nil || !n.StatusOf.Equal(enrolledAt(n)) || !same(timeless(*n.Status), timeless(reported))
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
