// Package telemetry counts what the controller does and offers it to Prometheus,
// in a registry of its own.
package telemetry

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// Metrics is every metric of the controller. Its methods may be called at the
// same time.
type Metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	heldPolls   prometheus.Gauge
	enrollments *prometheus.CounterVec
	noNonce     prometheus.Counter
	discovery   prometheus.Counter
	renewals    prometheus.Counter
	revocations prometheus.Counter
	handshakes  *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	closed      *prometheus.CounterVec
	store       *prometheus.HistogramVec
	notWritten  prometheus.Counter
	cloud       *prometheus.CounterVec
	ended       *prometheus.CounterVec
	took        *prometheus.HistogramVec
	ready       *prometheus.HistogramVec
}

// New makes the metrics of this build.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_http_requests_total",
			Help: "Answered requests by operationId of the OpenAPI document (ui.*: of the status page; empty: no such route) and status code.",
		}, []string{"operation", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodehitch_http_request_duration_seconds",
			Help:    "Time to answer by operationId, the time that a request was held included.",
			Buckets: []float64{.001, .01, .1, 1, 10, 60},
		}, []string{"operation"}),
		heldPolls: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nodehitch_long_polls_in_flight",
			Help: "Requests that are held until something changes.",
		}),
		enrollments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_enrollments_total",
			Help: "Requests to enroll, by result.",
		}, []string{"result"}),
		noNonce: counter("nodehitch_enrollments_without_nonce_total",
			"Servers that were asked for no nonce, because the credential may not write their metadata."),
		discovery: counter("nodehitch_discovery_failures_total",
			"Servers that no topology names, whose stack could not be observed."),
		renewals:    counter("nodehitch_certificate_renewals_total", "Certificates of nodes that were renewed."),
		revocations: counter("nodehitch_identity_revocations_total", "Identities of nodes that were revoked."),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_tls_handshakes_total",
			Help: "TLS handshakes of the HTTPS listener, by result.",
		}, []string{"result"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_connections_rejected_total",
			Help: "New connections that were closed because there were too many, by reason.",
		}, []string{"reason"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_connections_closed_total",
			Help: "Connections that were closed for a new one, by reason.",
		}, []string{"reason"}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodehitch_store_transaction_duration_seconds",
			Help:    "Duration of store transactions; a write includes its fsync.",
			Buckets: []float64{.0001, .001, .005, .02, .1, .5, 2},
		}, []string{"type"}),
		cloud: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_cloud_requests_total",
			Help: "Requests to clouds, each attempt one, by service, call and HTTP status code (0: no answer).",
		}, []string{"service", "call", "code"}),
		notWritten: counter("nodehitch_store_write_failures_total", "Transactions that the disk did not take."),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodehitch_operations_ended_total",
			Help: "LCM operations that have ended, by phase and result. A START that completed ends again if it is taken back.",
		}, []string{"operation", "phase", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodehitch_operation_duration_seconds",
			Help:    "How long LCM operations were in progress, by phase and result.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200},
		}, []string{"operation", "phase", "result"}),
		ready: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodehitch_node_ready_duration_seconds",
			Help:    "How long after their enrollment nodes were Ready for the first time, by role.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
		}, []string{"role"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "nodehitch_build_info",
		Help:        "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.durations, m.heldPolls, m.enrollments, m.noNonce, m.discovery, m.renewals, m.revocations,
		m.handshakes, m.rejected, m.closed, m.store, m.notWritten, m.cloud, m.ended, m.took, m.ready, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.begin()
	return m
}

// begin makes the series of counters whose labels have few values: Prometheus takes a series that appears
// with a 1 for no increase, so that the first of its kind would be missed.
func (m *Metrics) begin() {
	for _, reason := range []string{"limit", "source_limit"} {
		m.rejected.WithLabelValues(reason)
	}
	for _, reason := range []string{"idle", "per_caller_limit"} {
		m.closed.WithLabelValues(reason)
	}
	for _, result := range []string{"success", "failure"} {
		m.handshakes.WithLabelValues(result)
	}
	for _, kind := range operationKinds() {
		for _, phase := range phases {
			for _, result := range []string{"completed", "failed", "cancelled"} {
				m.ended.WithLabelValues(kind, string(phase), result)
			}
		}
	}
}

// BeginEnrollments makes the series of these results of requests to enroll.
func (m *Metrics) BeginEnrollments(results ...string) {
	for _, result := range results {
		m.enrollments.WithLabelValues(result)
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Text is every metric in Prometheus' text format.
func (m *Metrics) Text() (string, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return "", fmt.Errorf("gathering the metrics: %w", err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return "", fmt.Errorf("encoding the metrics: %w", err)
		}
	}
	return text.String(), nil
}

// Answered counts an answered request.
func (m *Metrics) Answered(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(operation).Observe(took.Seconds())
}

// PollHeld counts a request that is held (+1) and let go (-1).
func (m *Metrics) PollHeld(delta int) { m.heldPolls.Add(float64(delta)) }

// Enrollment counts a request to enroll, by its result.
func (m *Metrics) Enrollment(result string) { m.enrollments.WithLabelValues(result).Inc() }

// EnrollmentWithoutNonce counts a server that is asked for no nonce.
func (m *Metrics) EnrollmentWithoutNonce() { m.noNonce.Inc() }

// DiscoveryFailure counts a server whose stack could not be observed.
func (m *Metrics) DiscoveryFailure() { m.discovery.Inc() }

// Renewal counts a renewed certificate.
func (m *Metrics) Renewal() { m.renewals.Inc() }

// Revocation counts a revoked identity.
func (m *Metrics) Revocation() { m.revocations.Inc() }

// TLSHandshake counts a handshake, by its result.
func (m *Metrics) TLSHandshake(result string) { m.handshakes.WithLabelValues(result).Inc() }

// ConnectionRejected counts a new connection that was rejected.
func (m *Metrics) ConnectionRejected(reason string) { m.rejected.WithLabelValues(reason).Inc() }

// ConnectionClosed counts a connection that was closed for a new one.
func (m *Metrics) ConnectionClosed(reason string) { m.closed.WithLabelValues(reason).Inc() }

// Transaction counts a transaction of the store; failed: the disk did not take it.
func (m *Metrics) Transaction(write bool, took time.Duration, failed bool) {
	if failed {
		m.notWritten.Inc()
	}
	access := "read"
	if write {
		access = "write"
	}
	m.store.WithLabelValues(access).Observe(took.Seconds())
}

// Cloud counts a request to a cloud; status is 0 if no answer came.
func (m *Metrics) Cloud(service, call string, status int) {
	m.cloud.WithLabelValues(service, call, strconv.Itoa(status)).Inc()
}

// OperationEnded counts an operation that has ended.
func (m *Metrics) OperationEnded(operation, phase, result string) {
	m.ended.WithLabelValues(operation, phase, result).Inc()
}

// OperationTook counts for how long an operation was in progress.
func (m *Metrics) OperationTook(operation, phase, result string, took time.Duration) {
	m.took.WithLabelValues(operation, phase, result).Observe(took.Seconds())
}

// NodeReady counts a node that is Ready for the first time, so long after its enrollment.
func (m *Metrics) NodeReady(role string, after time.Duration) {
	m.ready.WithLabelValues(role).Observe(after.Seconds())
}

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
