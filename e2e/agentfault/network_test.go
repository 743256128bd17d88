package agentfault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// The cable drops all packets while the poll is held, the document changes, and the cable
// is repaired.
func TestNetworkIsCut(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "network drops all packets",
		"packets are dropped while a poll is held: the agent notices within the poll interval plus 30 s, retries rarely, and has the new document when the network is back")
	c := newCable(t)
	w := c.workers("5")
	a := c.join(w)
	loopback.Until(t, "it is current", func() bool { return w.current(0) })
	c.lose(towardsController, 1)
	c.lose(towardsAgent, 1)
	w.change()
	noticed := loopback.Within(w.t, 60*time.Second, "the loss is noticed", func() bool { return !a.Status().Controller.Connected })
	before, cut := c.begun(), 10*time.Second
	time.Sleep(cut) // the outage itself
	packets := c.begun() - before
	if s := a.Status().Controller; s.LastError == "" || s.NextAttempt == nil {
		t.Errorf("the status does not say what is wrong: %+v", s)
	}
	c.repair()
	back := loopback.Within(w.t, 90*time.Second, "it is current again", func() bool { return w.current(0) })
	if packets > 20 {
		t.Errorf("%d packets begin a connection in %v", packets, cut)
	}
	r.Figure("noticed after", "%.0f s", noticed.Seconds())
	r.Figure("SYNs in 10 s of the cut", "%d", packets)
	r.Figure("current after the repair in", "%.0f s", back.Seconds())
}

// A longer cut, with figures on what the agent does meanwhile and afterwards.
func TestNetworkIsCutForMinutes(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "network cut for four minutes",
		"retries become rare and stay rare; after the cut the agent needs a few connections")
	results.LongOnly(t)
	c := newCable(t)
	w := c.workers("20")
	a := c.join(w)
	loopback.Until(t, "it is current", func() bool { return w.current(0) })
	c.lose(towardsController, 1)
	w.change()
	loopback.Within(w.t, 90*time.Second, "the loss is noticed", func() bool { return !a.Status().Controller.Connected })
	time.Sleep(3 * time.Minute)
	before := c.begun()
	time.Sleep(time.Minute)
	late := c.begun() - before
	before = c.begun()
	c.repair()
	back := loopback.Within(w.t, 100*time.Second, "it is current again", func() bool { return w.current(0) })
	after := c.begun() - before
	if late > 20 || after > 8 {
		t.Errorf("%d SYNs in the fourth minute, %d after the end of the cut", late, after)
	}
	r.Figure("SYNs in the fourth minute", "%d", late)
	r.Figure("connections after the cut", "%d", after)
	r.Figure("current after", "%.0f s", back.Seconds())
}

// One direction alone: to the controller; to the agent, so that the controller gets the
// agent's packets and the agent none.
func TestOneWayLoss(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string][]string{"controller": towardsController, "agent": towardsAgent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := results.Begin(t, suite, "one-way loss towards the "+name,
				"all packets towards the "+name+" are lost: the agent notices within the poll interval plus 30 s, and recovers when they arrive again")
			results.LongOnly(t)
			c := newCable(t)
			w := c.workers("5")
			a := c.join(w)
			loopback.Until(t, "it is current", func() bool { return w.current(0) })
			c.lose(direction, 1)
			w.change()
			noticed := loopback.Within(w.t, 60*time.Second, "the loss is noticed", func() bool { return !a.Status().Controller.Connected })
			loopback.Within(w.t, 60*time.Second, "the controller no longer hears from it", func() bool {
				n := w.Node(w.servers[0])
				return n.LastSeenAt != nil && time.Since(*n.LastSeenAt) > 15*time.Second
			})
			c.repair()
			back := loopback.Within(w.t, 90*time.Second, "it is current again", func() bool { return w.current(0) })
			r.Figure("noticed after", "%.0f s", noticed.Seconds())
			r.Figure("current after the repair in", "%.0f s", back.Seconds())
		})
	}
}

// Every third packet of each direction is lost, from before the enrollment on.
func TestThirtyPercentLoss(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "30 % loss each way",
		"the node enrolls, follows four documents and reports each over a network that loses 30 % of the packets in each direction")
	results.LongOnly(t)
	c := newCable(t)
	w := c.workers("10")
	c.lose(towardsController, 0.3)
	c.lose(towardsAgent, 0.3)
	a := c.join(w)
	enrolled := loopback.Within(w.t, 3*time.Minute, "it is current", func() bool { return w.current(0) })
	var sum, worst time.Duration
	const documents = 4
	for range documents {
		w.change()
		took := loopback.Within(w.t, 3*time.Minute, "the next document", func() bool { return w.current(0) })
		sum, worst = sum+took, max(worst, took)
	}
	if first, reissued := w.enrollments(); first+reissued > 3 {
		t.Errorf("enrolled %d times", first+reissued)
	}
	if serial := w.Node(w.servers[0]).CertificateSerial; a.Status().Controller.CertificateSerial != strings.TrimLeft(serial, "0") {
		t.Errorf("the node uses %s, the controller knows %s", a.Status().Controller.CertificateSerial, serial)
	}
	r.Figure("enrolled and current after", "%.0f s", enrolled.Seconds())
	r.Figure("documents after", "%.0f s on average, %.0f s at most", sum.Seconds()/documents, worst.Seconds())
	r.Figure("SYNs", "%d", c.begun())
}

// The controller moves to another address, and its name with it; the old address no
// longer answers.
func TestControllerMovesBehindItsName(t *testing.T) {
	t.Parallel()
	r := results.Begin(t, suite, "controller moves to another address",
		"its name resolves to another address, the old one does not answer: the agent resolves the name again")
	results.LongOnly(t)
	c := newCable(t)
	w := c.workers("5", "names", "[controller.example]", "advertiseUrls", "[https://controller.example:"+port+"]")
	hosts := filepath.Join(t.TempDir(), "hosts")
	name := func(address string) {
		if err := os.WriteFile(hosts, fmt.Appendf(nil, "%s controller.example\n", address), 0o644); err != nil { // as /etc/hosts is
			t.Fatal(err)
		}
	}
	name(controllerEnd)
	a := w.agentWith(0, loopback.AgentOptions{Wrap: in(c.agent), Hosts: hosts})
	loopback.Until(t, "it is current", func() bool { return w.current(0) })
	c.run("ip", "-n", c.controller, "addr", "add", anotherEnd+"/24", "dev", "wire")
	c.run("ip", "-n", c.controller, "addr", "del", controllerEnd+"/24", "dev", "wire")
	c.run("ip", "-n", c.controller, "addr", "add", anotherEnd+"/24", "dev", "wire") // a secondary address goes with the first
	name(anotherEnd)
	w.change()
	moved := loopback.Within(w.t, 90*time.Second, "it is current from the new address", func() bool { return w.current(0) })
	if s := a.Status().Controller; s.URL != "https://controller.example:"+port {
		t.Errorf("status %+v", s)
	}
	r.Figure("current after", "%.0f s", moved.Seconds())
}
