package node

import (
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// tellEvery is the least time between two transactions that tell which nodes were lost and are
	// back.
	tellEvery = 10 * time.Second
	// mostTold is how many nodes that were lost, and how many that are back, one of them names. The
	// others are counted. Each may be of an instance of its own, and etcd limits the keys of a
	// transaction.
	mostTold = 50
)

// tell writes the events of nodes that were lost and are back. Presence is in memory, so no record
// has changed: they have a transaction of their own. If it fails, the next one tells them.
func (s *Service) tell() error {
	now := s.Runner.Now()
	if !s.toldAt.IsZero() && now.Sub(s.toldAt) < tellEvery {
		return nil
	}
	changes := s.Presence.Changes()
	if len(changes) == 0 {
		return nil
	}
	err := s.Runner.Store.Update(func(t *store.Tx) error {
		for _, kind := range []struct {
			lost      bool
			one, many api.EventType
		}{{true, api.HappenedNodeLost, api.HappenedNodesLost}, {false, api.HappenedNodeBack, api.HappenedNodesBack}} {
			if err := tellThose(t, changes, kind.lost, kind.one, kind.many); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the events of nodes that were lost and are back: %w", err)
	}
	s.toldAt = now
	s.Presence.Drop(len(changes))
	return nil
}

// tellThose tells of the nodes that were lost, or of those that are back, which have an identity.
func tellThose(t *store.Tx, changes []presence.Change, lost bool, one, many api.EventType) error {
	found := 0
	for _, c := range changes {
		if c.Lost != lost {
			continue
		}
		n, _, err := t.Nodes().Get(c.NodeID)
		if err != nil {
			return err
		}
		if !n.Identity.Live() {
			continue
		}
		if found++; found <= mostTold {
			t.Tell(n.InstanceID, store.Event{Type: one, NodeID: n.ID, NodeName: n.Name, Message: "no call for " + c.Silence.Round(time.Second).String()})
		}
	}
	if found > mostTold {
		t.Tell("", store.Event{Type: many, Message: fmt.Sprintf("%d nodes besides the %d that have an event of their own", found-mostTold, mostTold)})
	}
	return nil
}
