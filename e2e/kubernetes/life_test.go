package kubernetes

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestLife takes a cluster through its operations.
func TestLife(t *testing.T) {
	w := newCluster(t)
	r := results.Begin(t, suite, "instantiate", "one master and two workers become a cluster: END completes when each Node is Ready, the Pods' network is there and CoreDNS is available")
	w.draw(1, 2)
	w.Apply(body, w.packageDir)
	began := time.Now()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	w.sound()
	w.answers()
}
