package peers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

var workerAddress = netip.MustParseAddr("10.10.0.7")

// noopLimit is how much of the leanest peer's time and CPU time nodehitch may take to
// find that nothing is to be done.
const noopLimit = 0.4

func TestNoopOfAWorker(t *testing.T) {
	r := results.Begin(t, suite, "noop-worker", "a worker with nothing to do, by nodehitch, cf-agent, puppet and ansible with equal policies")
	Require(t)
	s := sitetest.Open(t, bin, lab.KindNspawn)
	st, worker := instance(t, s.Lab)
	userData, err := s.Announce(t.Context(), &st, workerAddress.Next(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.Lab.Nspawn(t.Context(), lab.Spec{Name: worker.Name, ServerID: worker.ID, Address: workerAddress, UserData: userData})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{n, t, "worker"}
	m.converged(s)
	m.installPeers(s.Lab, r, strings.NewReplacer())
	m.equal([]string{"apt-get", "purge", "--yes", "nfs-common"})
	m.compare(r, 15)
}

// compare measures all contestants on the converged machine, and holds nodehitch to the
// limit. Each has just run, and found nothing to do: caches are warm.
func (m *machine) compare(r *results.Case, rounds int) {
	m.t.Helper()
	commands := map[string][]string{}
	all := append([]contestant{ours}, theirs...)
	for _, c := range all {
		commands[c.name] = m.command(c)
	}
	runs, err := measure(m.t.Context(), m, rounds, commands)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, c := range all {
		for _, run := range runs[c.name] {
			if n := m.read(c, run); n != 0 {
				m.t.Fatalf("%s changed %d while it was measured", c.name, n)
			}
		}
		r.Figure(c.name, "%.1f ms, CPU %.1f ms", 1e3*median(runs[c.name], wall), 1e3*median(runs[c.name], cpu))
	}
	for _, quality := range []struct {
		name string
		of   func(run) float64
	}{{"time", wall}, {"CPU time", cpu}} {
		peer := leanest(runs, quality.of)
		ratio := median(runs[ours.name], quality.of) / median(runs[peer], quality.of)
		var single []float64
		for i, run := range runs[ours.name] {
			single = append(single, quality.of(run)/quality.of(runs[peer][i]))
		}
		r.Figure(quality.name+" beside "+peer, "%.2f (%d runs of each in turn, medians; %.2f to %.2f in single rounds)",
			ratio, rounds, slices.Min(single), slices.Max(single))
		if ratio > noopLimit {
			m.t.Errorf("nodehitch takes %.2f of the %s of %s; at most %.2f", ratio, quality.name, peer, noopLimit)
		}
	}
}
