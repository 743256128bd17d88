package sitetest

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
)

// Kills is what is killed while operations are in progress.
type Kills struct {
	// Agents are killed: all when an operation is on record, and each at the begin and the
	// end of every action that it takes.
	Agents bool
	// Controller is killed when an operation is on record, and whenever its nodes make progress.
	Controller bool

	mu      sync.Mutex
	killers map[string]*site.Killer // by server
	times   int
}

// None says that nothing is killed.
func (k *Kills) None() bool { return !k.Agents && !k.Controller }

// most is how many lines of hitchctl lead to a kill in one operation, which has to end.
const most = 8

// during is told of the lines of an operation.
func (v *VNF) during(machines []*Machine) func(line string) {
	for _, m := range machines {
		if err := v.Kills.Watch(v.w.T.Context(), m); err != nil {
			v.w.T.Error(err)
		}
	}
	last, times := "", 0
	return func(line string) {
		now := moment(line)
		// The agents have their killers for the rest.
		if now == "" || now == last || times == most || v.Kills.Agents && times > 0 {
			return
		}
		v.strike(machines)
		last = now
		times++
	}
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

// Strike kills the agents, or the controller, now.
func (v *VNF) Strike() { v.strike(v.Up()) }

func (v *VNF) strike(machines []*Machine) {
	k := &v.Kills
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Controller {
		if err := errors.Join(v.w.Kill(), v.w.Start(v.w.T.Context())); err != nil {
			v.w.T.Error(err)
		}
		k.times++
	}
	if k.Agents {
		for _, m := range machines {
			// An agent that is not installed yet, or waits for its restart, cannot be killed.
			if _, err := m.Try("systemctl", "kill", "--signal=KILL", "nodehitch-agent"); err == nil {
				k.times++
			}
		}
	}
}

// Watch starts to kill the agent of a machine at every action, until the kills are over. The
// agent need not be installed yet.
func (k *Kills) Watch(ctx context.Context, m lab.Node) error {
	k.mu.Lock()
	_, known := k.killers[m.ServerID()]
	k.mu.Unlock()
	if known || !k.Agents {
		return nil
	}
	killer, err := site.StartKiller(ctx, m)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killers == nil {
		k.killers = map[string]*site.Killer{}
	}
	k.killers[m.ServerID()] = killer
	return nil
}

// KillsAreOver ends the kills of a case and records their number. A case with fewer kills than
// this has shown nothing.
func (v *VNF) KillsAreOver(r *results.Case, name string, least int) {
	v.w.T.Helper()
	k := &v.Kills
	if k.None() {
		return
	}
	up := v.Up()
	for id, killer := range k.killers {
		i := slices.IndexFunc(up, func(m *Machine) bool { return m.ServerID() == id })
		if i < 0 {
			continue // it is gone
		}
		moments, err := killer.Stop(v.w.T.Context())
		if err != nil {
			v.w.T.Errorf("%s: %v", up[i].Name(), err)
		}
		k.times += len(moments)
	}
	r.Figure(name, "%d times", k.times)
	if k.times < least {
		v.w.T.Errorf("%s: %d times", name, k.times)
	}
	k.killers, k.times = nil, 0
}
