// Package monitoring tests what an operator's Prometheus makes of the controller's metrics: the
// alerts of packaging/monitoring fire by their real fault and end with it, and the queries of the
// dashboard have data. Prometheus is Debian's, the controller is the real one; the nodes are the
// test's, because a fault is what a node reports.
package monitoring
