package replicas

import (
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestKill kills processes between two instructions: a controller, and one or two of three
// members of etcd.
func TestKill(t *testing.T) {
	w := open(t, 3, 3)
	w.phase(t, "kill the leader", "a follower takes over when the lease has ended, and the others answer that there is no leader until then; systemd starts the killed one again", func(*results.Case) {
		w.replaced(func(c *controller) func() {
			c.signal(syscall.SIGKILL)
			return func() {}
		})
	})
	w.phase(t, "stop the leader", "a leader that is stopped gives its lease back, and a follower takes over at once", func(*results.Case) {
		w.replaced(func(c *controller) func() {
			c.stop()
			return c.start
		})
	})
	w.phase(t, "kill a follower", "its agents and clients go on to the next controller; systemd starts it again", func(*results.Case) {
		c := w.follower()
		started := c.started()
		c.signal(syscall.SIGKILL)
		w.served()
		loopback.Until(w.t, "systemd has started it again", func() bool { return c.started() > started })
	})
	w.phase(t, "kill etcd's leader", "the other two members elect another", func(*results.Case) {
		m := w.etcd.Members[w.etcdLeader()]
		m.Kill()
		w.etcdLeader()
		w.served()
		m.Start()
	})
	w.phase(t, "kill a minority of etcd", "the other two are enough; at most the leader that called it loses its term", func(*results.Case) {
		m := w.etcd.Members[(w.etcdLeader()+1)%3]
		m.Kill()
		w.outage()
		w.served()
		m.Start()
	})
	w.phase(t, "kill a majority of etcd", "nothing is acknowledged until one is back, and what was acknowledged before is there", func(*results.Case) {
		leader := w.etcdLeader()
		gone := []int{leader, (leader + 1) % 3}
		for _, i := range gone {
			w.etcd.Members[i].Kill()
		}
		w.outage()
		for _, i := range gone {
			w.etcd.Members[i].StartUnder() // it is ready with the other one
		}
		for _, i := range gone {
			w.etcd.Members[i].WaitReady()
		}
	})
}

// TestStandbys does to the leader what the other tests do, while nobody else serves.
func TestStandbys(t *testing.T) {
	longOnly(t, "standbys")
	w := openStandbys(t, 3, 3)
	w.phase(t, "standbys: kill the leader", "a standby takes over when the lease has ended", func(*results.Case) {
		w.replaced(func(c *controller) func() {
			c.signal(syscall.SIGKILL)
			return func() {}
		})
	})
	w.phase(t, "standbys: stop the leader", "a standby takes over at once", func(*results.Case) {
		w.replaced(func(c *controller) func() {
			c.stop()
			return c.start
		})
	})
	w.phase(t, "standbys: agents and clients lose the leader", "it stays the leader, and nobody serves them", w.loseTheLeader)
}

// replaced does something to the leader, waits until the next term has begun, and then mends
// what was done. A leader that has started again may be the next one too.
func (w *installation) replaced(harm func(*controller) (mend func())) {
	w.t.Helper()
	old := w.leader()
	_, before := w.term()
	mend := harm(old)
	loopback.Until(w.t, "the next leader's term", func() bool {
		_, now := w.term()
		return now > before
	})
	mend()
}
