package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// operations are a cluster's life, in this order.
var operations = []struct {
	name, shows string
	run         func(*cluster, *results.Case)
}{
	{"instantiate", "one master and two workers become a cluster: END completes when each Node is Ready, the Pods' network is there and CoreDNS is available", (*cluster).instantiate},
	{"scale-out", "a worker that comes later joins, and gets Pods", (*cluster).scaleOut},
	{"scale-in", "a worker is drained before its server goes, and its Node with it", (*cluster).scaleIn},
	{"heal-worker", "a worker is replaced by a new machine of its name", (*cluster).healWorker},
}

// TestLife takes a cluster through its operations.
func TestLife(t *testing.T) {
	w := newCluster(t)
	for _, o := range operations {
		if !t.Run(o.name, func(t *testing.T) {
			r := results.Begin(t, suite, o.name, o.shows)
			defer w.During(t)()
			defer w.Explain()
			o.run(w, r)
			w.sound()
		}) {
			t.Fatalf("%s has left something else to the operations after it", o.name)
		}
	}
}

func (w *cluster) instantiate(r *results.Case) {
	w.draw(1, 2)
	w.Apply(body, w.packageDir)
	began := time.Now()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	w.answers()
}

func (w *cluster) scaleOut(r *results.Case) {
	w.draw(0, 1)
	added := w.Topology.Servers[len(w.Topology.Servers)-1]
	began := time.Now()
	w.boot(added)
	w.Operate(api.Scale, "--type=SCALE_OUT")
	r.Figure("machine powered on to END", "%.1f s", time.Since(began).Seconds())
}

func (w *cluster) scaleIn(*results.Case) {
	leaves := w.Of(workerPoint)[0]
	w.Operate(api.Scale, "--type=SCALE_IN", "--phase=START", sitetest.VNFC(leaves.Server))
	if left := w.kubectl("get", "nodes", "-o", "name"); slices.Contains(strings.Fields(left), "node/"+leaves.Name()) {
		w.T.Errorf("START has completed, and the cluster has the Nodes %s", left)
	}
	w.Drop(leaves.Server)
	w.Destroy(leaves)
	w.Operate(api.Scale, "--type=SCALE_IN")
	w.answers()
}

func (w *cluster) healWorker(*results.Case) {
	old := w.Of(workerPoint)[0]
	w.Operate(api.Heal, "--phase=START", sitetest.VNFC(old.Server))
	w.Destroy(old)
	replaced := w.Redraw(old.Server)
	w.boot(replaced)
	w.Operate(api.Heal, sitetest.VNFC(replaced))
	w.answers()
}
