package present

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Agents describes the agents on the nodes and their upgrade.
func Agents(s *screen.Screen, r api.AgentRollout, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("State", describe.ReasonAndMessage(string(r.State), r.Message))
	p.field("Version", r.Version)
	p.field("Mode", string(r.Mode))
	if r.StartedAt != nil {
		p.field("Started", p.moment(r.StartedAt)+" by "+r.StartedBy)
		p.field("Wave", strconv.Itoa(r.Wave))
	}
	p.field("In flight", fmt.Sprintf("%d of at most %d", len(r.InFlight), r.MaxUnavailable))
	for _, c := range r.Carried {
		p.field("Carried", describe.CarriedAgent(c))
	}
	p.heading("Nodes")
	if len(r.Nodes) == 0 {
		p.text(2, screen.Faint, "none has an identity")
	} else {
		p.table(agentCounts(r.Nodes))
	}
	if len(r.InFlight) > 0 {
		p.heading("In flight")
		p.table(agentsInFlight(r.InFlight, now))
	}
	return p.lines
}

func agentCounts(list []api.AgentCount) screen.Table {
	t := screen.Table{Columns: []screen.Column{{Title: "VERSION"}, {Title: "STATE"}, {Title: "NODES"}}}
	for _, c := range list {
		t.Add(screen.Text(cmp.Or(c.Version, none)), screen.Cell{Text: string(c.State), Style: style(describe.OfAgent(c.State))}, screen.Text(strconv.Itoa(c.Nodes)))
	}
	return t
}

func agentsInFlight(list []api.AgentInFlight, now time.Time) screen.Table {
	t := screen.Table{Columns: []screen.Column{{Title: "NAME"}, {Title: "ID", Spare: 3}, {Title: "VERSION", Spare: 1}, {Title: "TO", Spare: 2},
		{Title: "WAVE", Spare: 4}, {Title: "SINCE"}, {Title: "MESSAGE", Flexible: true}}}
	for _, f := range list {
		t.Add(screen.Text(f.Name), screen.Text(describe.Short(f.NodeID)), screen.Text(cmp.Or(f.Version, none)), screen.Text(f.To),
			screen.Text(strconv.Itoa(f.Wave)), screen.Text(since(now, &f.Since)), screen.Text(describe.ReasonAndMessage(f.Reason, f.Message)))
	}
	return t
}
