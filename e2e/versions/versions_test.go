package versions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const suite = "versions"

// What newer.patch adds.
const (
	clock     = "clock"
	clockRead = "ClockRead"
)

// pair is a row of the table: which controller, which agents.
func (w *world) pair(name string, controller, agents build) {
	w.T.Run(name, func(t *testing.T) {
		defer w.During(t)()
		r := results.Begin(t, suite, name, fmt.Sprintf("the %s controller and %s agents: every role converges to a new document, and nothing is lost", controller.name, agents.name))
		w.change()
		var also, want []string
		if controller.name == "newer" {
			if agents.name == "newer" {
				also = []string{clockRead}
			} else {
				want = []string{clock + " " + api.ReasonAgentTooOld}
			}
		}
		for _, m := range w.machines {
			n := w.converged(m, agents, also...)
			var withheld []string
			for _, h := range n.Withheld {
				withheld = append(withheld, h.Section+" "+h.Reason)
			}
			if !slices.Equal(withheld, want) {
				t.Errorf("%s: withheld is %q, want %q", m.role, withheld, want)
			}
			r.Figure(string(m.role), "%s; withheld %s", strings.Join(trueConditions(n), " "), strings.Join(append(withheld, none(withheld)...), ", "))
		}
		w.lost(r)
	})
	if w.T.Failed() {
		w.T.FailNow() // the next steps need it
	}
}

func none(list []string) []string {
	if len(list) == 0 {
		return []string{"nothing"}
	}
	return nil
}

// trueConditions are the conditions of the node that are True for its document.
func trueConditions(n *api.Node) (list []string) {
	for _, c := range n.Status.Conditions {
		if c.Status == api.ConditionTrue && c.ObservedGeneration == n.Generation {
			list = append(list, c.Type)
		}
	}
	return list
}

// The way of an upgrade by two releases: the controller first, then the agents.
func TestUpgrade(t *testing.T) {
	labtest.Require(t, lab.KindNspawn)
	old, now, next := oldest(t), current(t), newer(t)
	w := newWorld(t, old, old)
	for _, m := range w.machines {
		w.converged(m, old)
	}
	w.keep()
	w.pair("old-old", old, old)
	w.upgradeController(now)
	w.pair("new-old", now, old)
	w.upgradeController(next)
	w.pair("newer-old", next, old)
	w.replaceAgents(now)
	w.pair("newer-new", next, now)
	w.operationWaits(next)
	w.pair("newer-newer", next, next)
}

// operationWaits: an operation that asks for a section which the agents of today do not
// understand waits, says why, and completes when the agents are upgraded.
func (w *world) operationWaits(next build) {
	w.T.Run("operation", func(t *testing.T) {
		defer w.During(t)()
		r := results.Begin(t, suite, "operation", "an END that asks for a section that an agent does not understand waits with AgentTooOld until the agent is upgraded")
		op, err := client.Read[api.Operation](w.api.PostOperation(t.Context(), w.registry.id, nil, api.OperationRequest{
			Operation: api.Instantiate, Phase: api.PhaseEnd, Topology: &w.registry.topology, DeadlineSeconds: int((2 * time.Hour).Seconds())}))
		if err != nil {
			t.Fatal(err)
		}
		if op.State != api.Processing || len(op.Targets) != 1 || op.Targets[0].Reason != api.ReasonAgentTooOld {
			t.Errorf("it is %+v, want it to wait for the registry's agent", op)
		}
		r.Figure("waited for", "%s", op.Targets[0].Reason)
		w.replaceAgents(next)
		for _, m := range w.machines {
			w.converged(m, next, clockRead)
		}
		if op, err = client.Read[api.Operation](w.api.GetOperation(t.Context(), w.registry.id, op.Sequence, nil)); err != nil {
			t.Fatal(err)
		}
		if op.State != api.Completed {
			t.Errorf("the agents are upgraded and it is %+v", op)
		}
		r.Figure("after the upgrade", "%s", op.State)
	})
}

// Agents that come before their controller, because images are often newer than what
// runs: enrolled two releases ahead, taken back by one, and then the controller follows.
func TestAgentsFirst(t *testing.T) {
	labtest.Require(t, lab.KindNspawn)
	old, now, next := oldest(t), current(t), newer(t)
	w := newWorld(t, old, next)
	for _, m := range w.machines {
		w.converged(m, next)
	}
	w.keep()
	w.pair("old-newer", old, next)
	w.replaceAgents(now)
	w.pair("old-new", old, now)
	w.upgradeController(now)
	w.pair("new-new", now, now)
	w.replaceAgents(next)
	w.pair("new-newer", now, next)
}
