package telemetry

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodehitch/nodehitch/shared/api"
)

// State counts the records and connections of each state.
type State struct {
	Instances  map[api.InstanceState]int
	Nodes      map[api.NodeState]int
	Operations map[api.OperationState]int
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
	for _, d := range []*prometheus.Desc{instances, nodes, operation, notAfter, connections, handshakes, most} {
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
	for state, n := range map[string]int{"unauthenticated": now.Unauthenticated, "authenticated": now.Authenticated} {
		out <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(handshakes, prometheus.GaugeValue, float64(now.Handshakes))
	out <- prometheus.MustNewConstMetric(most, prometheus.GaugeValue, float64(now.MostHandshakes))
	for name, t := range now.NotAfter {
		out <- prometheus.MustNewConstMetric(notAfter, prometheus.GaugeValue, float64(t.Unix()), name)
	}
}

func send[S ~string](out chan<- prometheus.Metric, d *prometheus.Desc, counts map[S]int, states ...S) {
	for _, state := range states {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}
