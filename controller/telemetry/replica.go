package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Replica is what a controller knows of itself among those that share its store.
type Replica struct {
	// Leader says that it is the leader.
	Leader bool
	// Term is the number of the present leader's term; 0 if there is no leader.
	Term int64
	// Live is how many replicas are alive; nil if etcd has not answered for as long as a lease.
	Live *int
	// Lag is how long ago etcd confirmed that this follower has all that was committed; nil if it
	// is none, or etcd never did.
	Lag *time.Duration
}

var (
	isLeader = prometheus.NewDesc("nodehitch_replica_is_leader", "1 if this controller is the leader among those that share its store in etcd, 0 if it waits; absent if it has a store of its own.", nil, nil)
	term     = prometheus.NewDesc("nodehitch_replica_term", "Number of the leader's term, as this controller knows it: a later term has a higher number; 0 while no controller is the leader.", nil, nil)
	replicas = prometheus.NewDesc("nodehitch_replicas", "Controllers that share the store and are alive, as etcd has told this one; absent if etcd has not done so for 10 s.", nil, nil)
	lag      = prometheus.NewDesc("nodehitch_replica_lag_seconds", "How long ago etcd confirmed that this controller holds all that was committed; absent at the leader, at a standby, and before the first time.", nil, nil)
)

// replicaCollector reads only when a scrape asks for it.
type replicaCollector struct{ read func() Replica }

// CollectReplica calls read at each scrape.
func (m *Metrics) CollectReplica(read func() Replica) {
	m.registry.MustRegister(replicaCollector{read})
}

// Describe tells which metrics there are.
func (replicaCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{isLeader, term, replicas, lag} {
		out <- d
	}
}

// Collect sends the metrics.
func (c replicaCollector) Collect(out chan<- prometheus.Metric) {
	now := c.read()
	leader := 0.0
	if now.Leader {
		leader = 1
	}
	out <- prometheus.MustNewConstMetric(isLeader, prometheus.GaugeValue, leader)
	out <- prometheus.MustNewConstMetric(term, prometheus.GaugeValue, float64(now.Term))
	if now.Live != nil {
		out <- prometheus.MustNewConstMetric(replicas, prometheus.GaugeValue, float64(*now.Live))
	}
	if now.Lag != nil {
		out <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, now.Lag.Seconds())
	}
}
