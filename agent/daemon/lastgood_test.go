package daemon_test

import (
	"os"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// failing is a node whose second document failed terminally, after a part of it was made.
func failing(t *testing.T) (c *controller, n *node, stop func() error) {
	t.Helper()
	c = newController(t)
	c.give(1, 1, "")
	n = newNode(t, c)
	n.work.fail = 2
	stop = n.start()
	until(t, "Ready", n.ready(c, 1))
	c.give(2, 1, "")
	until(t, "the failure is reported", func() bool {
		s := c.last()
		return s.LastFailedGeneration == 2 && s.LastFailedCondition == api.ConditionVolumesMounted && s.ObservedGeneration == 2 && s.AppliedGeneration == 1
	})
	return c, n, stop
}

func (n *node) made() []int64 {
	n.work.mu.Lock()
	defer n.work.mu.Unlock()
	return slices.Clone(n.work.made)
}

// A failed document does not replace the last known good. A restart while the controller
// answers does not go back to it.
func TestDocumentThatFailsIsNotKept(t *testing.T) {
	c, n, stop := failing(t)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if a, err := n.state().Applied(); err != nil || a == nil || a.Generation != 1 {
		t.Fatalf("kept %+v, %v", a, err)
	}
	n.mu.Lock()
	if applied := slices.Compact(slices.Clone(n.applied)); !slices.Equal(applied, []int64{1}) {
		t.Errorf("said to be applied: %v", applied)
	}
	n.mu.Unlock()
	c.set(func() { c.reports = nil })
	_, stop = n.work, n.start()
	until(t, "the failure is reported again", func() bool { return c.last().LastFailedGeneration == 2 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if made := n.made(); !slices.Equal(made, []int64{1, 2}) {
		t.Errorf("made %v: went back to the last known good although the controller was there", made)
	}
}

// Without a controller, the agent converges the last known good.
func TestRebootAfterAFailure(t *testing.T) {
	c, n, stop := failing(t)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(n.statusFile())
	c.server.Close()
	n.start()
	until(t, "converged from disk", func() bool { return n.work.is() == 1 })
	until(t, "the status says so", func() bool {
		s := n.status()
		return s.Origin == "disk" && s.Node.AppliedGeneration == 1 && s.Node.Condition(api.ConditionReady).Status == api.ConditionTrue
	})
}

// A document that an agent of a later version has applied stays on disk, unused, until
// there is one that this agent understands.
func TestLastKnownGoodOfALaterAgent(t *testing.T) {
	for name, content := range map[string]string{
		"another version": `{"apiVersion": "nodehitch/v2", "epoch": 1, "generation": 9, "role": "storage"}`,
		"another section": `{"apiVersion": "nodehitch/v1", "epoch": 1, "generation": 9, "role": "storage", "cluster": {}}`,
		"another field":   `{"apiVersion": "nodehitch/v1", "epoch": 1, "generation": 9, "role": "storage", "storage": {"volumes": [], "tiers": []}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, n := ran(t)
			n.write("last-known-good.json", []byte(content))
			c.set(func() { c.cut = true })
			stop := n.start()
			until(t, "it has no document", func() bool { s := n.status(); return s.Controller.LastError != "" && s.Node.ObservedGeneration == 0 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if n.work.is() != 0 || string(n.read("last-known-good.json")) != content {
				t.Error("it was converged, or is gone")
			}
		})
	}
}

// With a document from its disk, the agent changes only the node. Changes beyond the node
// wait until the controller has confirmed the document, even if it was away for a while.
func TestNothingBeyondTheNodeWithoutTheController(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.cluster = &work{}
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	until(t, "the last known good", func() bool { a, _ := n.state().Applied(); return a != nil })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*work{n.work, n.cluster} {
		w.change(func() { w.has = 0 })
	}
	c.set(func() { c.cut = true })
	n.start()
	until(t, "the node is converged, and the rest waits for the controller", func() bool {
		s := n.status()
		beyond := s.Node.Condition(cluster{}.Condition())
		return n.work.is() == 1 && beyond != nil && beyond.Reason == api.ReasonWaitingForController
	})
	if n.cluster.is() != 0 {
		t.Error("something beyond the node was changed under a document from disk")
	}
	c.set(func() { c.cut = false })
	until(t, "it is done when the controller is back", func() bool { return n.cluster.is() == 1 })
	until(t, "Ready", n.ready(c, 1))
	c.set(func() { c.cut = true })
	until(t, "the loss is noticed", func() bool { return !n.status().Controller.Connected })
	n.cluster.change(func() { n.cluster.has = 0 })
	until(t, "it waits again", func() bool {
		beyond := n.status().Node.Condition(cluster{}.Condition())
		return beyond != nil && beyond.Reason == api.ReasonWaitingForController
	})
	if n.cluster.is() != 0 {
		t.Error("something beyond the node was changed while the controller was away")
	}
}
