package replicas

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// slowBy is how long each flush to disk of a slow member takes more.
const slowBy = 300 * time.Millisecond

// TestSlow makes the disk of one member of etcd slow.
func TestSlow(t *testing.T) {
	longOnly(t, "slow")
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatalf("%v; `make deps` installs it", err)
	}
	w := open(t, 3, 3)
	w.phase(t, "slow disk of a member", "the other two members are a quorum", func(c *results.Case) {
		w.slow(c, (w.etcdLeader()+1)%3)
	})
	w.phase(t, "slow disk of etcd's leader", "the others write while it does", func(c *results.Case) {
		w.slow(c, w.etcdLeader())
	})
}

func (w *installation) slow(c *results.Case, at int) {
	w.t.Helper()
	leads := w.etcdLeader() == at
	m := w.etcd.Members[at]
	m.Kill()
	m.StartUnder("strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync",
		"-e", fmt.Sprintf("inject=fdatasync:delay_exit=%d", slowBy.Microseconds()))
	m.WaitReady()
	if leads {
		w.lead(at)
	}
	c.Figure("each flush", "%v longer, at a member that leads: %v", slowBy, w.etcdLeader() == at)
	w.outage()
	m.Kill()
	m.Start()
}

// lead makes a member etcd's leader.
func (w *installation) lead(at int) {
	w.t.Helper()
	member, err := w.db.Status(w.t.Context(), w.etcd.Members[at].URL)
	w.must(err)
	_, err = w.connect(w.etcd.Members[w.etcdLeader()].URL).MoveLeader(w.t.Context(), member.Header.MemberId)
	w.must(err)
}
