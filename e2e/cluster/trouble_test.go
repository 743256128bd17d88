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

// trouble is what befalls a cluster while its operations are under way.
type trouble struct {
	// agents are killed: all when an operation is on record, and each at the begin and
	// the end of every action that it takes.
	agents bool
	// controller is killed when an operation is on record, and whenever its nodes get on.
	controller bool

	mu      sync.Mutex
	killers map[*machine]*site.Killer
	kills   int
}

func (t *trouble) none() bool { return !t.agents && !t.controller }

// most is how often hitchctl's words lead to trouble in an operation, which has to end.
const most = 5

// during runs hitchctl to its end, in trouble; the machines are those that are up.
func (t *trouble) during(c *cluster, machines []*machine, args []string) said {
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

var gotOn = regexp.MustCompile(`^ *(\+\S+)  `)

// moment says when hitchctl has said a line, where that is a moment for trouble: that
// the operation is on record, or that a node gets on.
func moment(line string) string {
	if strings.HasPrefix(line, "operation ") {
		return "on record"
	}
	if found := gotOn.FindStringSubmatch(line); found != nil {
		return found[1]
	}
	return ""
}

// strike kills what the trouble is about, now.
func (t *trouble) strike(c *cluster, machines []*machine) {
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
		// One that is not there yet, or waits to be started again, cannot be killed.
		if _, err := m.try("systemctl", "kill", "--signal=KILL", "nodehitch-agent"); err == nil {
			t.kills++
		}
	}
}

// startKiller has the agent of a machine killed at every action until the trouble is
// over. It need not be there yet.
func (t *trouble) startKiller(m *machine) error {
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

// over ends the trouble of a case and says how much it was. A case in which nothing was
// killed has shown nothing.
func (t *trouble) over(c *cluster, r *results.Case) {
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
