package agentupgrade

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Counts are the nodes by their agent and how far its upgrade is, while the caller reads the
// nodes one by one: thousands of records are tens of megabytes.
type Counts struct {
	service *Service
	builds  map[string]api.WantedAgent
	idle    bool
	wave    wave // without nodes
	work    map[string]work

	nodes    map[api.AgentCount]int
	managed  int
	inFlight []api.AgentInFlight
}

// Counts begins to count the nodes of the transaction.
func (s *Service) Counts(t *store.Tx) (*Counts, error) { return s.counts(t, s.Carried.Builds()) }

func (s *Service) counts(t *store.Tx, builds map[string]api.WantedAgent) (*Counts, error) {
	r, err := t.AgentRollout()
	if err != nil {
		return nil, err
	}
	c := &Counts{service: s, builds: builds, idle: r.Version == "", nodes: map[api.AgentCount]int{}, inFlight: []api.AgentInFlight{}}
	r.Version = cmp.Or(r.Version, s.Version)
	c.wave = s.wave(r, builds)
	c.work, err = s.workOnAll(t)
	return c, err
}

// Add counts a node. The nodes come in the order of their ids.
func (c *Counts) Add(record store.Node) {
	n, may := c.service.nodeOf(record, c.work)
	if !may {
		return
	}
	c.nodes[api.AgentCount{Version: n.running(), State: c.wave.state(n, false)}]++
	if n.managed() {
		c.managed++
	}
	if n.inFlight() {
		c.inFlight = append(c.inFlight, n.shownInFlight())
	}
}

// Rollout is how many of the nodes have which agent, and how far their upgrade is.
func (c *Counts) Rollout() api.AgentRollout {
	s, r := c.service, c.wave.rollout
	out := api.AgentRollout{Mode: s.Config.Mode, Version: r.Version, MaxUnavailable: s.Config.MaxUnavailable.Of(c.managed), PauseSeconds: s.Config.PauseSeconds,
		Wave: r.Wave, StartedBy: r.StartedBy, Nodes: c.list(), InFlight: c.inFlight, Carried: []api.CarriedAgent{}}
	if !c.idle {
		out.StartedAt = &r.StartedAt
	}
	for _, arch := range slices.Sorted(maps.Keys(c.builds)) {
		b := c.builds[arch]
		out.Carried = append(out.Carried, api.CarriedAgent{Architecture: arch, Version: b.Version, Sha256: b.SHA256, SizeBytes: b.SizeBytes})
	}
	out.State, out.Message = c.wave.summary(c.idle, out.Nodes)
	return out
}

func (c *Counts) list() []api.AgentCount {
	list := make([]api.AgentCount, 0, len(c.nodes))
	for count, nodes := range c.nodes {
		count.Nodes = nodes
		list = append(list, count)
	}
	slices.SortFunc(list, func(a, b api.AgentCount) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.State, b.State))
	})
	return list
}

// offered is the reason of a node in flight whose agent has not answered the offer yet.
const offered = "Offered"

// shownInFlight is a node in flight as people see it.
func (n node) shownInFlight() api.AgentInFlight {
	o, u := n.offer(), n.upgrade()
	f := api.AgentInFlight{NodeID: n.ID, Name: n.Name, VnfInstanceID: n.InstanceID, Version: n.running(), To: o.Version, Wave: o.Wave, Since: o.At, Reason: u.Reason, Message: u.Message}
	switch {
	case !n.present:
		f.Reason = string(api.AgentLost)
	case u.Version == o.Version && u.Reason != api.UpgradeUpToDate:
	case !n.ready:
		f.Reason = string(api.AgentNotReady)
	case n.running() != o.Version:
		f.Reason, f.Message = offered, ""
	}
	return f
}
