package agentupgrade

import (
	"log/slog"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// decision is what is to be written of a rollout and its nodes.
type decision struct {
	before, after store.AgentRollout
	changed       []node
	nodes         []node // all of them, afterwards
	pause         time.Duration
}

func (d decision) empty() bool { return len(d.changed) == 0 && store.Same(d.before, d.after) }

// wakes are the nodes whose polls are to be answered: those whose turn has come, and, if the
// rollout continues, those that were not told while it was halted.
func (d decision) wakes() (ids []string) {
	all := d.changed
	if d.before.Halted() {
		all = d.nodes
	}
	for _, n := range all {
		if n.inFlight() && !d.after.Halted() {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

func (d decision) log(log *slog.Logger) {
	r := d.after
	log = log.With("version", r.Version)
	begins := !r.StartedAt.Equal(d.before.StartedAt)
	if begins {
		log.Info("an upgrade of agents begins", "event", api.EventRolloutStarted, "who", r.StartedBy)
	}
	if r.Wave > 0 && (begins || r.Wave != d.before.Wave) {
		told := 0
		for _, n := range d.changed {
			if n.inFlight() {
				told++
			}
		}
		log.Info("agents are told to upgrade", "event", api.EventRolloutWave, "wave", r.Wave, "nodes", told)
	}
	if r.Paused != nil && d.before.Paused == nil {
		log.Info("the upgrade of agents is paused", "event", api.EventRolloutPaused, "who", r.Paused.By)
	}
	if r.Stopped != nil && d.before.Stopped == nil {
		log.Warn("the upgrade of agents has stopped: a node rolled the version back", "event", api.EventRolloutStopped, "node", r.Stopped.By, "reason", r.Stopped.Message)
	}
}
