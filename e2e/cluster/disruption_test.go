package cluster

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
)

// disruption is what is killed while operations are in progress.
type disruption struct {
	// agents are killed: all when an operation is on record, and each at the begin and
	// the end of every action that it takes.
	agents bool
	// controller is killed when an operation is on record, and whenever its nodes make progress.
	controller bool

	mu      sync.Mutex
	killers map[*machine]*site.Killer
	kills   int
}

func (t *disruption) none() bool { return !t.agents && !t.controller }

// most is how many lines of hitchctl lead to a kill in one operation, which has to end.
const most = 5

// during runs hitchctl to its end, with disruption; the machines are those that are up.
func (t *disruption) during(c *cluster, machines []*machine, args []string) said {
	if t.none() {
		return c.hitchctl(args...)
	}
	for _, m := range machines {
		if err := t.startKiller(m); err != nil {
			c.t.Error(err)
		}
	}
	last, times := "", 0
	return c.follow(args, func(line string) {
		now := moment(line)
		// The agents have their killers for the rest.
		if now == "" || now == last || times == most || t.agents && times > 0 {
			return
		}
		t.strike(c, machines)
		last = now
		times++
	})
}

var progress = regexp.MustCompile(`^ *(\+\S+)  `)

// moment returns the moment that a line of hitchctl stands for, if it is one to kill at:
// the operation is on record, or a node makes progress.
func moment(line string) string {
	if strings.HasPrefix(line, "operation ") {
		return "on record"
	}
	if found := progress.FindStringSubmatch(line); found != nil {
		return found[1]
	}
	return ""
}

// strike kills the agents or the controller now.
func (t *disruption) strike(c *cluster, machines []*machine) {
	if t.none() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.controller {
		if err := errors.Join(c.Kill(), c.Start(c.t.Context())); err != nil {
			c.t.Error(err)
		}
		t.kills++
		return
	}
	for _, m := range machines {
		// An agent that is not installed yet, or waits for its restart, cannot be killed.
		if _, err := m.try("systemctl", "kill", "--signal=KILL", "nodehitch-agent"); err == nil {
			t.kills++
		}
	}
}

// startKiller starts to kill the agent of a machine at every action, until over. The
// agent need not be installed yet.
func (t *disruption) startKiller(m *machine) error {
	t.mu.Lock()
	_, known := t.killers[m]
	t.mu.Unlock()
	if known || !t.agents {
		return nil
	}
	killer, err := site.StartKiller(m.w.t.Context(), m)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.killers == nil {
		t.killers = map[*machine]*site.Killer{}
	}
	t.killers[m] = killer
	return nil
}

// over ends the disruption of a case and records the number of kills. A case without a
// kill has shown nothing.
func (t *disruption) over(c *cluster, r *results.Case) {
	c.t.Helper()
	if t.none() {
		return
	}
	for m, killer := range t.killers {
		if !slices.Contains(c.machines, m) {
			continue // it is gone
		}
		moments, err := killer.Stop(c.t.Context())
		if err != nil {
			c.t.Errorf("%s: %v", m.Name(), err)
		}
		t.kills += len(moments)
	}
	r.Figure("killed", "%d times", t.kills)
	if t.kills == 0 {
		c.t.Error("nothing was killed")
	}
	t.killers, t.kills = nil, 0
}
