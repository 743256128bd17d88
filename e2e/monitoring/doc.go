// Package monitoring tests what an operator's Prometheus makes of the controller's metrics: the
// alerts of packaging/monitoring fire by their real fault and end with it, and the dashboard's
// queries have data.
package monitoring
