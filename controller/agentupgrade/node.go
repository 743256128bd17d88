package agentupgrade

import (
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// node is what is known of a node that may be told to upgrade: one with a live identity that
// a topology in force names.
type node struct {
	store.Node
	// present: it has called since the controller's start and is not lost.
	present bool
	// ready: it has proven its present document.
	ready bool
	// unheard: it has not reported since a backup was restored, and may have been told anything
	// since that was taken.
	unheard bool
	// busy: it is a target of an operation in progress.
	busy bool
}

// running is the version of the agent that reported last, "" before its first report.
func (n node) running() string {
	if s := n.reported(); s != nil {
		return s.Facts.AgentVersion
	}
	return ""
}

// reported is the status that the present machine reported, nil for none.
func (n node) reported() *api.NodeStatus {
	if n.Status == nil || !n.StatusOf.Equal(n.Identity.EnrolledAt) {
		return nil
	}
	return n.Status
}

// upgrade is what the agent reports of its upgrade; the zero value for one that does not.
func (n node) upgrade() api.AgentUpgrade {
	if s := n.reported(); s != nil && s.AgentUpgrade != nil {
		return *s.AgentUpgrade
	}
	return api.AgentUpgrade{}
}

// managed reports whether the node's agent upgrades itself when it is told.
func (n node) managed() bool { return n.upgrade().ManagedBy == api.ManagedByController }

// othersReplace reports whether a package or an operator replaces the node's agent.
func (n node) othersReplace() bool {
	by := n.upgrade().ManagedBy
	return by == api.ManagedByPackage || by == api.ManagedByNone
}

// switching reports whether the agent is at work on an upgrade. Reasons that are not known
// here mean that it is not.
func (n node) switching() bool {
	switch n.upgrade().Reason {
	case api.UpgradeDownloading, api.UpgradeSwitching, api.UpgradeProbation:
		return true
	}
	return false
}

// refuses reports whether the agent has rolled the build back and refuses it. It reports the
// version; which build that was is what it was told last of that version.
func (n node) refuses(build api.WantedAgent) bool {
	u, o := n.upgrade(), n.offer()
	switch {
	case u.Reason != api.UpgradeRolledBack || u.Version != build.Version:
		return false
	case o == nil || o.Version != build.Version:
		return true
	}
	return o.WantedAgent == build && (o.Answered || o.GivenUp)
}

// well: nothing is wrong with the node as far as it says.
func (n node) well() bool { return n.present && n.ready && !n.switching() }

// occupiesPlace reports whether the node takes one of the places of those that are in flight: it is,
// or it may be although that is not on record, or it is not well since.
func (n node) occupiesPlace(version string) bool {
	return n.inFlight() || n.switching() || n.unheard || n.unwell(version)
}

// offer is what the node was told to become, nil for nothing. What the machine was told that
// had the identity before counts no more.
func (n node) offer() *store.AgentOffer {
	if n.AgentOffer == nil || n.AgentOffer.At.Before(n.Identity.EnrolledAt) {
		return nil
	}
	return n.AgentOffer
}

// givenUp reports whether an operator went on without the node.
func (n node) givenUp(build api.WantedAgent) bool {
	o := n.offer()
	return o != nil && o.GivenUp && o.WantedAgent == build
}

// over reports whether the upgrade of a node in flight is over. Only the new agent can say that
// it is healthy: a status of the old one says nothing of the new.
func (n node) over() bool {
	o := n.offer()
	return n.well() && (n.running() == o.Version || n.refuses(o.WantedAgent))
}

// inFlight reports whether the node was told to upgrade and it is not over, and the node's agent
// is the controller's to replace.
func (n node) inFlight() bool {
	o := n.offer()
	return o != nil && !o.GivenUp && o.OverAt.IsZero() && !n.othersReplace()
}

// unwell reports whether the node has become this version, as it was told, and is not well any
// more: a build may break later than on its probation.
func (n node) unwell(version string) bool {
	o := n.offer()
	return o != nil && !o.OverAt.IsZero() && o.Version == version && n.running() == version && !n.well()
}

// read are all nodes that may be told, ordered by id.
func (s *Service) read(t *store.Tx) (nodes []node, err error) {
	work, err := s.workOnAll(t)
	if err != nil {
		return nil, err
	}
	err = t.Nodes().Each(func(record store.Node) {
		if n, may := s.nodeOf(record, work); may {
			nodes = append(nodes, n)
		}
	})
	return nodes, err
}

// nodeOf is what is known of the node, false if it may not be told.
func (s *Service) nodeOf(n store.Node, work map[string]work) (_ node, may bool) {
	at, confirmed := work[n.InstanceID]
	if !confirmed || !n.Expected || !n.Identity.Live() || n.Epoch != s.Store.Epoch() {
		return node{}, false
	}
	seen, _ := s.Presence.Last(n.ID)
	return node{Node: n, present: !seen.IsZero() && !s.Presence.Lost(n.ID), ready: progress.Ready(n, s.Store.Epoch()),
		unheard: n.Status != nil && n.Status.Epoch != s.Store.Epoch(), busy: at.all || at.targets[n.ID]}, true
}

// workOnAll is the work on each instance whose nodes are not refused.
func (s *Service) workOnAll(t *store.Tx) (map[string]work, error) {
	instances, err := t.Instances().All()
	if err != nil {
		return nil, err
	}
	all := map[string]work{}
	for _, i := range instances {
		if i.Epoch != s.Store.Epoch() {
			continue
		}
		if all[i.ID], err = workOn(t, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// work is which nodes of an instance an operation is about.
type work struct {
	all     bool
	targets map[string]bool
}

// workOn is the work on an instance. What a START prepares has no targets before its END
// comes, and may be about any node.
func workOn(t *store.Tx, i store.Instance) (work, error) {
	w := work{all: i.AwaitingEndSequence != 0, targets: map[string]bool{}}
	if i.ProcessingSequence == 0 {
		return w, nil
	}
	op, _, err := t.Operations().Get(store.OperationKey(i.ID, i.ProcessingSequence))
	for _, target := range op.Targets {
		w.targets[target.NodeID] = true
	}
	return w, err
}
