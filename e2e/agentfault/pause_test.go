package agentfault

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The agent is stopped for longer than its poll is held, as in a machine that is
// paused, while the controller is killed and comes back with another document.
func TestPausedAgent(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "agent paused for longer than its poll",
		"stopped for 8 s at a poll interval of 5 s while the controller is killed and started: polls at once when it continues")
	w := newWorkerVNF(t, 1, loopback.Options{})
	a := w.agent(0)
	loopback.Until(t, "it is current", func() bool { return w.current(0) })
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(a.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	w.End(syscall.SIGKILL)
	w.Start()
	w.change()
	time.Sleep(8 * time.Second) // the pause itself
	before := w.requests("getNodeConfig")
	signal(syscall.SIGCONT)
	back := loopback.Within(w.t, 60*time.Second, "it is current again", func() bool { return w.current(0) })
	if polls := w.requests("getNodeConfig") - before; polls > 4 {
		t.Errorf("%d polls to come back", polls)
	}
	r.Figure("current after", "%.1f s", back.Seconds())
}

// A start without a controller: the agent applies the last known good, and nothing else.
func TestStartWithoutTheController(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "start without the controller",
		"started without its status file and without a controller, the agent converges the last known good, says so, and follows new documents when the controller is back")
	w := newWorkerVNF(t, 1, loopback.Options{})
	a := w.agent(0)
	kept := filepath.Join(a.State(), "last-known-good.json")
	loopback.Until(t, "it is current, and keeps that", func() bool {
		_, err := os.Stat(kept)
		return err == nil && w.current(0)
	})
	generation, serial := w.Node(w.servers[0]).Generation, w.Node(w.servers[0]).CertificateSerial
	w.End(syscall.SIGKILL)
	_ = a.End(syscall.SIGKILL)
	if err := os.Remove(a.StatusFile()); err != nil { // as /run after a boot
		t.Fatal(err)
	}
	a.Start()
	loopback.Until(t, "it is Ready from its disk, and says that the controller does not answer", func() bool {
		s := a.Status()
		ready := s.Node.Condition(api.ConditionReady)
		return s.Origin == "disk" && ready != nil && ready.Status == api.ConditionTrue && s.Node.AppliedGeneration == generation &&
			strings.Contains(s.Summary(), "without a controller")
	})
	w.Start()
	w.change()
	back := loopback.Within(w.t, 90*time.Second, "it is current", func() bool { return w.current(0) })
	if now := w.Node(w.servers[0]).CertificateSerial; now != serial {
		t.Errorf("the certificate was %s and is %s", serial, now)
	}
	r.Figure("current after the controller is back in", "%.1f s", back.Seconds())
}
