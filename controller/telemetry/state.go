package telemetry

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodehitch/nodehitch/shared/api"
)

// State counts the records and connections of each state.
type State struct {
	Instances  map[api.InstanceState]int
	Nodes      map[api.NodeState]int
	Operations map[api.OperationState]int
	// Agents is the agents on the nodes, and their upgrade.
	Agents api.AgentRollout
	// NotAfter is when each of the controller's own certificates ends, by its name.
	NotAfter map[string]time.Time
	// Unauthenticated and Authenticated are connections.
	Unauthenticated, Authenticated int
	// Handshakes are in flight, MostHandshakes were at a time since the start.
	Handshakes, MostHandshakes int
}

var (
	instances   = prometheus.NewDesc("nodehitch_instances", "VNF instances by state.", []string{"state"}, nil)
	nodes       = prometheus.NewDesc("nodehitch_nodes", "Nodes by state.", []string{"state"}, nil)
	operation   = prometheus.NewDesc("nodehitch_operations", "LCM operation records by state.", []string{"state"}, nil)
	agents      = prometheus.NewDesc("nodehitch_agents", "Nodes by the version of their agent: the ten that most nodes have, and other.", []string{"version"}, nil)
	rollout     = prometheus.NewDesc("nodehitch_agent_rollout_state", "1 for the state that the upgrade of the agents is in, 0 for the others.", []string{"state"}, nil)
	upgrading   = prometheus.NewDesc("nodehitch_agent_rollout_nodes", "Nodes by how far the upgrade of their agent is.", []string{"state"}, nil)
	unavailable = prometheus.NewDesc("nodehitch_agent_rollout_max_unavailable_nodes", "How many nodes may be InFlight at a time.", nil, nil)
	notAfter    = prometheus.NewDesc("nodehitch_certificate_expiration_timestamp_seconds", "When the controller's own certificates end, in Unix time.", []string{"certificate"}, nil)
	connections = prometheus.NewDesc("nodehitch_connections", "Open connections to the HTTPS listener, by whether the caller has authenticated.", []string{"state"}, nil)
	handshakes  = prometheus.NewDesc("nodehitch_tls_handshakes_in_flight", "TLS handshakes in flight.", nil, nil)
	most        = prometheus.NewDesc("nodehitch_tls_handshakes_in_flight_max", "The most TLS handshakes that were in flight at a time since the start.", nil, nil)
)

// stateCollector counts only when a scrape asks for it.
type stateCollector struct {
	read func() (State, error)
	log  *slog.Logger
}

// CollectState calls read at each scrape. If read fails, the error is logged and the
// answer has no state metrics.
func (m *Metrics) CollectState(read func() (State, error), log *slog.Logger) {
	m.registry.MustRegister(stateCollector{read: read, log: log})
}

// Describe names the metrics.
func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{instances, nodes, operation, agents, rollout, upgrading, unavailable, notAfter, connections, handshakes, most} {
		out <- d
	}
}

// Collect sends a 0 for a state without records, so that a graph does not lose its line.
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	now, err := c.read()
	if err != nil {
		c.log.Error("the state cannot be counted for the metrics", "error", err)
		return
	}
	send(out, instances, now.Instances, api.NotInstantiated, api.Instantiated)
	send(out, nodes, now.Nodes, api.NodeExpected, api.NodeEnrolled, api.NodeLost, api.NodeRevoked)
	send(out, operation, now.Operations, api.Processing, api.Completed, api.Failed)
	c.collectAgents(out, now.Agents)
	for state, n := range map[string]int{"unauthenticated": now.Unauthenticated, "authenticated": now.Authenticated} {
		out <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(handshakes, prometheus.GaugeValue, float64(now.Handshakes))
	out <- prometheus.MustNewConstMetric(most, prometheus.GaugeValue, float64(now.MostHandshakes))
	for name, t := range now.NotAfter {
		out <- prometheus.MustNewConstMetric(notAfter, prometheus.GaugeValue, float64(t.Unix()), name)
	}
}

func (c stateCollector) collectAgents(out chan<- prometheus.Metric, now api.AgentRollout) {
	versions, states := map[string]int{}, map[api.AgentState]int{}
	for _, n := range now.Nodes {
		versions[cmp.Or(n.Version, "unknown")] += n.Nodes
		states[n.State] += n.Nodes
	}
	for version, n := range bounded(versions) {
		out <- prometheus.MustNewConstMetric(agents, prometheus.GaugeValue, float64(n), version)
	}
	send(out, rollout, map[api.RolloutState]int{now.State: 1},
		api.RolloutIdle, api.RolloutProgressing, api.RolloutPaused, api.RolloutStopped, api.RolloutComplete)
	send(out, upgrading, states, api.AgentUpToDate, api.AgentWaiting, api.AgentInFlightState, api.AgentNotReady, api.AgentLost, api.AgentInOperation,
		api.AgentRolledBack, api.AgentNewer, api.AgentNotCarried, api.AgentManagedByPackage, api.AgentUpgradeDisabled, api.AgentNotSupported)
	out <- prometheus.MustNewConstMetric(unavailable, prometheus.GaugeValue, float64(now.MaxUnavailable))
}

// maxVersions bounds the values of a label that nodes choose.
const maxVersions = 10

// bounded are the versions that most nodes have, and the sum of the others.
func bounded(versions map[string]int) map[string]int {
	byNodes := slices.SortedFunc(maps.Keys(versions), func(a, b string) int {
		return cmp.Or(cmp.Compare(versions[b], versions[a]), cmp.Compare(a, b))
	})
	shown := map[string]int{"other": 0} // a graph does not lose its line
	for i, version := range byNodes {
		if i >= maxVersions {
			version = "other"
		}
		shown[version] += versions[byNodes[i]]
	}
	return shown
}

func send[S ~string](out chan<- prometheus.Metric, d *prometheus.Desc, counts map[S]int, states ...S) {
	for _, state := range states {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}
