package replicas

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestPartition loses all packets between some hosts, in both directions, and tells nobody.
func TestPartition(t *testing.T) {
	longOnly(t, "partition")
	w := open(t, 3, 3)
	w.phase(t, "the leader loses etcd", "it is silent before its lease ends, and another controller takes over", func(*results.Case) {
		w.replaced(func(c *controller) func() { return c.cut(w.members...) })
	})
	w.phase(t, "the leader loses everybody", "another controller takes over, also for the agents whose connections are dead", func(*results.Case) {
		w.replaced(func(c *controller) func() { return c.cut(w.hostsBut(c.host)...) })
	})
	w.phase(t, "agents and clients lose the leader", "it stays the leader, and they reach it through the followers", func(c *results.Case) {
		w.loseTheLeader(c)
		w.served()
	})
	w.phase(t, "a follower loses the leader", "it refuses connections, and its agents and clients go on to the next controller", func(c *results.Case) {
		w.followerLoses(c, w.leader().host)
	})
	w.phase(t, "a follower loses etcd", "it goes on to hand requests to the leader that it knows, and holds no polls", func(c *results.Case) {
		w.followerLoses(c, w.members...)
	})
	w.phase(t, "a follower loses etcd and then there is another leader", "it refuses connections, and its agents and clients go on to the next controller", func(c *results.Case) {
		mend := w.follower().cut(w.members...)
		w.replaced(func(c *controller) func() {
			c.stop()
			return c.start
		})
		w.everyAgentPolls(c)
		mend()
	})
	w.phase(t, "etcd's leader loses the others", "two members elect another leader, and a controller that also asks the one that was cut off becomes the leader", func(*results.Case) {
		at := w.etcdLeader()
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

// loseTheLeader parts the leader from all who are neither controllers nor etcd.
func (w *installation) loseTheLeader(c *results.Case) {
	mend := w.leader().cut(w.agents, w.clients)
	w.outage()
	w.whileCutOff(c)
	mend()
}

func (w *installation) followerLoses(c *results.Case, hosts ...*host) {
	mend := w.follower().cut(hosts...)
	w.everyAgentPolls(c)
	mend()
}

// everyAgentPolls waits until every agent has an answer that nobody can have had ready before.
func (w *installation) everyAgentPolls(c *results.Case) {
	w.t.Helper()
	held := time.Now().Add(pollSeconds * time.Second * 11 / 10)
	w.await("every agent polls during the fault", 2*time.Minute, func(now crowd.Tally) bool {
		return now.Connected == w.size && now.Oldest < time.Since(held)
	})
	w.whileCutOff(c)
}

func (w *installation) whileCutOff(c *results.Case) {
	now := w.tally()
	c.Figure("at the end of it", "the leader was %s, %v answered, and %d of %d agents were connected", w.holder(), w.answers(), now.Connected, w.size)
}
