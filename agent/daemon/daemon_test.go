package daemon_test

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestFirstBoot(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	asked := 0                       // of the handler, under its lock
	c.enroll = func() *api.Problem { // the topology comes with the third attempt
		if asked++; asked < 3 {
			return api.NewProblem(api.ProblemServerNotExpected, "not yet")
		}
		return nil
	}
	n := newNode(t, c)
	n.start()
	until(t, "READY while the node is not enrolled", func() bool { return n.told("READY=1") && c.count("POST /v1/enroll") < 3 })
	until(t, "the status says why it waits", func() bool { return strings.Contains(n.status().Summary(), "not yet") })
	until(t, "Ready", n.ready(c, 1))
	s := c.last()
	if s.AppliedDigest != "digest-1" || s.Epoch != 1 || s.Condition(api.ConditionVolumesMounted) == nil {
		t.Errorf("reported %+v", s)
	}
	until(t, "the last known good", func() bool { a, _ := n.state().Applied(); return a != nil && a.Generation == 1 })
	for _, name := range []string{"identity.pem", "last-known-good.json", "machine.json"} {
		info, err := os.Stat(n.state().Path(name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(n.state().Path("key-next.pem")); err == nil {
		t.Error("the key is there twice")
	}
}

// A poll names the generation too: content may come back under another one.
func TestAPollNamesTheGenerationThatTheNodeHas(t *testing.T) {
	c := newController(t)
	var asked sync.Map
	c.refuse = func(r *http.Request, _ string) *api.Problem {
		asked.Store(r.Header.Get("If-None-Match")+" of "+r.URL.Query().Get("generation"), true)
		return nil
	}
	c.give(5, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "a poll with the generation", func() bool { _, ok := asked.Load(`"digest-5" of 5`); return ok })
}

func TestAnotherConfiguration(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "Ready", n.ready(c, 1))
	c.give(2, 1, "")
	until(t, "Ready for the second", n.ready(c, 2))
	polls := c.count("GET /v1/node/config")
	c.give(3, 7, "")
	until(t, "Ready for the third, with its epoch", func() bool { return n.ready(c, 3)() && c.last().Epoch == 7 })
	if more := c.count("GET /v1/node/config") - polls; more > 3 {
		t.Errorf("%d polls for one change", more)
	}
}

func TestWhatDriftsIsMadeAgainAndNothingElse(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "Ready", n.ready(c, 1))
	n.work.change(func() { n.work.has = 0 })
	until(t, "it is there again", func() bool { return n.work.is() == 1 })
	n.work.change(func() {
		if len(n.work.made) != 2 {
			t.Errorf("made %v", n.work.made)
		}
	})
}

func TestRebootWithoutAController(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.server.Close()
	_ = os.Remove(n.statusFile()) // /run is empty after a reboot
	n.work.change(func() { n.work.has = 0 })
	n.start()
	until(t, "converged from disk", func() bool { return n.work.is() == 1 })
	until(t, "the status says both", func() bool {
		s := n.status()
		return strings.HasPrefix(s.Summary(), "ready (generation 1), without a controller") && s.Origin == "disk" && s.Controller.NextAttempt != nil
	})
}

func TestDroppedConnections(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "Ready", n.ready(c, 1))
	c.set(func() { c.cut = true })
	until(t, "the loss is noticed", func() bool { return !n.status().Controller.Connected })
	if n.work.is() != 1 || n.status().Node.Condition(api.ConditionReady).Status != api.ConditionTrue {
		t.Error("the loss of the controller changed the node")
	}
	c.set(func() { c.cut = false })
	c.give(2, 1, "")
	until(t, "Ready after the controller is back", n.ready(c, 2))
	until(t, "the status says so", func() bool { s := n.status().Controller; return s.Connected && s.LastError == "" })
}

func TestRefusedIdentityRemovesNothing(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "Ready", n.ready(c, 1))
	until(t, "what was applied is saved", func() bool { a, err := n.state().Applied(); return err == nil && a != nil })
	c.set(func() {
		c.refuse = func(_ *http.Request, serial string) *api.Problem {
			if serial == "1" {
				return api.NewProblem(api.ProblemRevoked, "by an operator")
			}
			return nil
		}
		c.enroll = func() *api.Problem { return api.NewProblem(api.ProblemRevoked, "by an operator") }
	})
	until(t, "the refusal is known", func() bool { return strings.Contains(n.status().Controller.LastError, "by an operator") })
	if next := time.Until(*n.status().Controller.NextAttempt); next < 2*time.Second {
		t.Errorf("the next attempt is in %v already", next)
	}
	if a, err := n.state().Applied(); err != nil || a == nil || n.work.is() != 1 {
		t.Error("something was removed")
	}
	if _, err := n.state().Read("identity.pem"); err != nil {
		t.Error(err)
	}
	// `hitchctl node reenroll`
	c.set(func() { c.enroll = nil })
	c.give(2, 1, "")
	until(t, "Ready under a new identity", n.ready(c, 2))
}

func TestDocumentThatIsNotUnderstood(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "Ready", n.ready(c, 1))
	c.give(2, 1, `"cluster":{},`)
	until(t, "it is reported", func() bool {
		s := c.last()
		ready := s.Condition(api.ConditionReady)
		return s.LastFailedGeneration == 2 && s.LastFailedCondition == api.ConditionReady && s.ObservedGeneration == 2 && s.ObservedDigest == "digest-2" &&
			ready.Status == api.ConditionFalse && ready.Reason == api.ReasonInvalidDocument && strings.Contains(ready.Message, "/cluster")
	})
	polls := c.count("GET /v1/node/config")
	n.work.change(func() { n.work.has = 0 })
	until(t, "the one before stays in force", func() bool { return n.work.is() == 1 })
	until(t, "and does not hide the failure", func() bool {
		s := n.status()
		return s.Node.Activity == nil && s.Node.Condition(api.ConditionReady).Reason == api.ReasonInvalidDocument
	})
	if more := c.count("GET /v1/node/config") - polls; more > 2 {
		t.Errorf("%d polls for a document that did not change", more)
	}
	c.give(3, 1, "")
	until(t, "Ready for a good one", n.ready(c, 3))
}

func TestWaitingGoesOnByItself(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.work.wait = true
	n.start()
	until(t, "the reason is reported", func() bool {
		s := c.last()
		mounted := s.Condition(api.ConditionVolumesMounted)
		return mounted != nil && mounted.Reason == api.ReasonWaitingForDevice && s.AppliedGeneration == 0
	})
	if a, _ := n.state().Applied(); a != nil {
		t.Error("a document that is not applied was kept as last known good")
	}
	n.work.change(func() { n.work.wait = false })
	until(t, "Ready", n.ready(c, 1))
}

func TestStopLetsTheActionFinish(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	busy, release := make(chan struct{}), make(chan struct{})
	n.work.busy, n.work.release = busy, release
	stop := n.start()
	<-busy
	until(t, "the activity is reported", func() bool { a := c.last().Activity; return a != nil && a.Summary == "make it" })
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	until(t, "STOPPING", func() bool { return n.told("STOPPING=1") })
	select {
	case err := <-stopped:
		t.Error("stopped in the middle of an action:", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if s := n.status(); n.work.is() != 1 || s.StoppedAt == nil || s.Running() {
		t.Errorf("has %d, status %+v", n.work.is(), s)
	}
}

func TestNewDocumentWaitsForNoMoreThanOneAction(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	busy, release := make(chan struct{}), make(chan struct{})
	n.work.busy, n.work.release = busy, release
	n.start()
	<-busy
	c.give(2, 1, "")
	until(t, "the second is seen", func() bool { return n.status().Node.ObservedGeneration == 2 })
	close(release)
	until(t, "Ready for the second", n.ready(c, 2))
	until(t, "it is the last known good", func() bool { a, _ := n.state().Applied(); return a != nil && a.Generation == 2 })
}

func TestCopyOfAnEnrolledMachine(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n.is("6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70")
	n.work.change(func() { n.work.has = 0 })
	requests := c.count("")
	n.start()
	until(t, "the refusal is explained", func() bool {
		p := n.status().Problem
		return strings.Contains(p, server) && strings.Contains(p, "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70") && strings.Contains(p, "move")
	})
	until(t, "READY", func() bool { return n.told("READY=1") })
	if n.work.is() != 0 || c.count("") != requests {
		t.Error("the copy did something")
	}
}

func TestApplyHoldsTheLock(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	lock, err := state.TakeLock(n.lockFile(), "nodehitch-agent apply")
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	until(t, "it says whom it waits for", func() bool { return strings.Contains(n.status().Problem, "nodehitch-agent apply (pid ") })
	if n.work.is() != 0 {
		t.Error("converged in spite of the lock")
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	until(t, "Ready", n.ready(c, 1))
}

func TestTheSecondURLIsTried(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.cfg.ControllerURLs = []string{"https://127.0.0.1:1", c.server.URL}
	n.start()
	until(t, "Ready", n.ready(c, 1))
	if got := n.status().Controller.URL; got != c.server.URL {
		t.Errorf("got %s", got)
	}
}

func TestAnotherControllerGetsNothing(t *testing.T) {
	c, other := newController(t), newController(t)
	n := newNode(t, c)
	n.cfg.ControllerURLs = []string{other.server.URL}
	n.start()
	until(t, "the other server is known", func() bool {
		return strings.Contains(n.status().Controller.LastError, "not the controller whose root is pinned")
	})
	if other.count("") != 0 {
		t.Error("a request was sent to a server of another root")
	}
}

func TestNoTokenAndNoCertificate(t *testing.T) {
	c := newController(t)
	n := newNode(t, c)
	n.cfg.JoinToken = ""
	n.start()
	until(t, "it says what to do", func() bool { return strings.Contains(n.status().Summary(), "hitchctl get join-token") })
	if c.count("") != 0 {
		t.Error("asked the controller without a token")
	}
}

func TestKeyOfAnotherMachineIsNotUsed(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	no := true
	c.enroll = func() *api.Problem {
		if no {
			return api.NewProblem(api.ProblemIdentityLive, "")
		}
		return nil
	}
	n := newNode(t, c)
	stop := n.start()
	until(t, "it was refused", func() bool { return n.status().Controller.LastError != "" })
	_ = stop()
	before, err := n.state().Read("key-next.pem")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.state().SaveMachine(state.Machine{NodeID: "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70"}); err != nil {
		t.Fatal(err)
	}
	stop = n.start()
	until(t, "it is refused again", func() bool { return c.count("POST /v1/enroll") == 2 })
	_ = stop()
	after, err := n.state().Read("key-next.pem")
	if err != nil || string(before) == string(after) {
		t.Errorf("the key of the machine that this is a copy of is used, %v", err)
	}
}

func TestDamagedLastKnownGoodIsReplaced(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.state().Write("last-known-good.json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	c.give(2, 1, "")
	n.start()
	until(t, "Ready", n.ready(c, 2))
	until(t, "it is whole again", func() bool { a, err := n.state().Applied(); return err == nil && a.Generation == 2 })
}
