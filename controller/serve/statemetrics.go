package serve

import (
	"errors"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// stateMetrics reads each record once and keeps none: what a scrape takes must not be a
// multiple of what the records are.
func (s *services) stateMetrics() (telemetry.State, error) {
	c := telemetry.State{
		Instances: make(map[wire.InstanceState]int), Nodes: make(map[wire.NodeState]int), Operations: make(map[wire.OperationState]int),
		Conditions: make(map[telemetry.Condition]int), Unmet: make(map[wire.Reason]int), Processing: make(map[telemetry.OperationKind]time.Time),
	}
	root, intermediate, server := s.Authority.Expiry()
	c.NotAfter = map[string]time.Time{"root": root, "intermediate": intermediate, "server": server}
	c.Unauthenticated, c.Authenticated = s.limiter.Count()
	c.Handshakes, c.MostHandshakes = s.limiter.Handshakes()
	err := s.Store.View(func(tx *store.Tx) error {
		return errors.Join(s.countNodes(tx, &c), s.countInstances(tx, &c), countOperations(tx, &c), countStore(tx, &c))
	})
	return c, err
}

func (s *services) countNodes(tx *store.Tx, c *telemetry.State) error {
	agents, err := s.Agents.Counts(tx)
	if err != nil {
		return err
	}
	losses := s.Lifecycle.Nodes.Losses()
	err = tx.Nodes().Each(func(n store.Node) {
		state := s.Lifecycle.Nodes.State(n)
		c.Nodes[state]++
		agents.Add(n)
		if s.namesLost {
			losses.Add(n)
		}
		if n.Expected {
			countConditions(n, s.Store.Epoch(), c)
		}
		if state == wire.NodeEnrolled && (c.NodeNotAfter.IsZero() || n.Identity.NotAfter.Before(c.NodeNotAfter)) {
			c.NodeNotAfter = n.Identity.NotAfter
		}
	})
	c.Agents = agents.Rollout()
	if err != nil {
		return err
	}
	lost, err := losses.VNFCs(tx)
	for _, vnfc := range lost {
		c.LostVNFCs = append(c.LostVNFCs, telemetry.VNFC(vnfc))
	}
	return err
}

func countConditions(n store.Node, epoch int64, c *telemetry.State) {
	for condition := range progress.Conditions(n, epoch) {
		c.Conditions[telemetry.Condition{Role: n.Role, Type: condition.Type, Status: condition.Status}]++
		if condition.Type != wire.ConditionReady && condition.Status != wire.ConditionTrue {
			c.Unmet[condition.Reason]++
		}
	}
	for _, w := range n.Withheld {
		c.Unmet[w.Reason]++
	}
}

func (s *services) countInstances(tx *store.Tx, c *telemetry.State) error {
	return tx.Instances().Each(func(i store.Instance) {
		c.Instances[i.State]++
		if i.Epoch != s.Store.Epoch() {
			c.Unconfirmed++
		}
	})
}

func countOperations(tx *store.Tx, c *telemetry.State) error {
	return tx.OperationStates().Each(func(o store.OperationState) {
		c.Operations[o.State]++
		kind := telemetry.OperationKind{Operation: o.Operation.Kind(o.Type), Phase: o.Phase}
		if oldest := c.Processing[kind]; o.State == wire.Processing && (oldest.IsZero() || o.StartedAt.Before(oldest)) {
			c.Processing[kind] = o.StartedAt
		}
	})
}

func countStore(tx *store.Tx, c *telemetry.State) (err error) {
	last, _, err := tx.LastBackup()
	if err != nil {
		return err
	}
	c.BackupTakenAt = last.TakenAt
	c.StoreUsed, c.StoreFree, err = tx.Space()
	return err
}
