package replicas

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestPartition loses all packets between some hosts, in both directions, and tells nobody.
func TestPartition(t *testing.T) {
	longOnly(t, "partition")
	w := open(t, 3, 3)
	w.phase(t, "the writer loses etcd", "it is silent before its lease ends, and another controller takes over", func(*results.Case) {
		w.replaced(func(c *controller) func() { return c.cut(w.members...) })
	})
	w.phase(t, "the writer loses everybody", "another controller takes over, also for the agents whose connections are dead", func(*results.Case) {
		w.replaced(func(c *controller) func() { return c.cut(w.hostsBut(c.host)...) })
	})
	w.phase(t, "agents and clients lose the writer", "it stays the writer; who serves meanwhile is observed", func(c *results.Case) {
		writer := w.writer()
		mend := writer.cut(w.agents, w.clients)
		w.outage()
		c.Figure("while they were cut off", "the writer was %s, and %v answered", w.holder(), w.answers())
		mend()
	})
	w.phase(t, "etcd's leader loses the others", "two members elect another leader, and a controller that also asks the one that was cut off becomes the writer", func(*results.Case) {
		at := w.leader()
		mend := w.members[at].cut(w.members[(at+1)%3], w.members[(at+2)%3])
		w.outage()
		w.served()
		mend()
	})
	w.phase(t, "no member of etcd has another", "nothing is acknowledged meanwhile", func(*results.Case) {
		first := w.members[0].cut(w.members[1], w.members[2])
		second := w.members[1].cut(w.members[2])
		w.outage()
		second()
		first()
	})
}
