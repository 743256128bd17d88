package fleet

import (
	"net/http"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestChange gives every node another document at once.
func TestChange(t *testing.T) {
	for _, size := range []struct {
		name   string
		agents int
		long   bool
	}{{"200 nodes", 200, false}, {"2000 nodes", 2000, true}} {
		t.Run(size.name, func(t *testing.T) {
			c := results.Begin(t, "fleet", "another document for "+size.name, "each node gets it at once and reports it; no held poll misses it")
			if size.long {
				results.LongOnly(t)
			}
			change(t, c, size.agents)
		})
	}
}

func change(t *testing.T, c *results.Case, agents int) {
	f := open(t, c)
	f.enroll(agents)
	f.connected(30 * time.Minute)
	f.held(2 * time.Minute)
	const rounds = 3
	for round := range rounds {
		old, before, cpu := f.takeTally().Digests, f.transactions(), f.Usage().CPU
		began := time.Now()
		for i, instance := range f.instances {
			f.PutParams(instance, loopback.ClusterParams([]string{"http://a", "http://b", "http://c"}[round]), loopback.Workers(id, i*perInstance, min(perInstance, agents-i*perInstance)))
		}
		put := time.Since(began)
		f.await("every agent has it", 2*time.Minute, func(t crowd.Tally) bool { return f.another(t, old) })
		has := time.Since(began)
		f.await("the controller knows that every agent has it", 10*time.Minute, func(crowd.Tally) bool { return f.ready() })
		if round < rounds-1 {
			continue
		}
		c.Figure("given after", "%.1f s", put.Seconds())
		c.Figure("in force everywhere after", "%.1f s", has.Seconds())
		c.Figure("reported by all after", "%.1f s", time.Since(began).Seconds())
		c.Figure("transactions", "%.2f per node", (f.transactions()-before)/float64(agents))
		c.Figure("CPU", "%.1f ms per node", 1000*(f.Usage().CPU-cpu).Seconds()/float64(agents))
	}
	c.Figure("RSS", "%d MiB", f.Usage().Resident>>20)
}

// another says whether all agents have the same document, and not an old one.
func (f *fleet) another(t crowd.Tally, old map[string]int) bool {
	for digest, n := range t.Digests {
		if _, known := old[digest]; known || n != f.agents {
			return false
		}
	}
	return len(t.Digests) == 1
}

// ready says whether every node has reported that its document is in force.
func (f *fleet) ready() bool {
	f.t.Helper()
	nodes, err := client.All[api.Node](func(page client.RequestEditorFn) (*http.Response, error) {
		return f.API.ListNodes(f.t.Context(), nil, page)
	})
	f.must(err)
	ready := 0
	for _, n := range nodes {
		if n.Ready {
			ready++
		}
	}
	return ready == f.agents
}

// transactions that wrote, since the start.
func (f *fleet) transactions() float64 {
	return f.metric(`nodehitch_store_transaction_duration_seconds_count{type="write"}`)
}
