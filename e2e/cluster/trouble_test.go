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
	haunted []*machine
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
		if err := t.haunt(m); err != nil {
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

// killedFile has the moments in which the agent was killed.
const killedFile = "/run/lab-killed"

// haunt starts the killer on a machine, whose agent is started again at once. It need
// not be there yet.
func (t *trouble) haunt(m *machine) error {
	t.mu.Lock()
	known := !t.agents || slices.Contains(t.haunted, m)
	if !known {
		t.haunted = append(t.haunted, m)
	}
	t.mu.Unlock()
	if known {
		return nil
	}
	for path, content := range map[string][]byte{
		"/root/killer.py": site.AgentKiller,
		"/etc/systemd/system/nodehitch-agent.service.d/lab.conf": []byte("[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=100ms\n"),
	} {
		if err := m.Push(m.w.t.Context(), path, 0o700, content); err != nil {
			return err
		}
	}
	_, err := m.try("sh", "-euc", "systemctl daemon-reload; rm -f "+killedFile+"; systemd-run --quiet --collect --unit=lab-killer /root/killer.py "+killedFile)
	return err
}

// over ends the trouble of a case and says how much it was. A case in which nothing was
// killed has shown nothing.
func (t *trouble) over(c *cluster, r *results.Case) {
	c.t.Helper()
	if t.none() {
		return
	}
	for _, m := range t.haunted {
		if _, err := m.try("systemctl", "stop", "lab-killer"); err != nil {
			continue // the machine is gone, or has been restarted
		}
		if moments, err := m.Pull(c.t.Context(), killedFile); err == nil {
			t.kills += strings.Count(string(moments), "\n")
		}
	}
	r.Figure("killed", "%d times", t.kills)
	if t.kills == 0 {
		c.t.Error("nothing was killed")
	}
	t.haunted, t.kills = nil, 0
}
