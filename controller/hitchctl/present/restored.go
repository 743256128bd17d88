package present

import (
	"cmp"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Restored describes what a confirmation of a restored instance will trust again,
// and what it will not.
func Restored(s *screen.Screen, i api.Instance, nodes []api.Node, volumes []api.Volume, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("Instance", describe.NameAndID(i.Name, i.ID))
	p.field("State", string(i.State))
	p.field("Unconfirmed", p.origin(i.Restored))
	p.heading("Nodes")
	table := screen.Table{Columns: []screen.Column{
		{Title: "NAME"}, {Title: "ROLE", Spare: 1}, {Title: "ID", Spare: 3}, {Title: "SEEN", Spare: 2}, {Title: "WITH THE CONFIRMATION", Flexible: true}}}
	for _, n := range nodes {
		table.Add(screen.Text(n.Name), screen.Text(string(n.Role)), screen.Text(describe.Short(n.ID)), screen.Text(since(now, n.LastSeenAt)), becomes(n))
	}
	p.table(table)
	if len(volumes) > 0 {
		p.heading("Volumes")
		p.table(restoredVolumes(volumes))
	}
	return append(p.lines, "")
}

func (p *page) origin(r *api.RestoreOrigin) string {
	if r == nil {
		return ""
	}
	return "restored " + p.moment(&r.RestoredAt) + " from a backup of " + p.moment(&r.TakenAt)
}

// becomes is what a node may do once it is confirmed.
func becomes(n api.Node) screen.Cell {
	switch {
	case n.State == api.NodeRevoked:
		return screen.Cell{Text: "refused: its identity is revoked", Style: screen.Good}
	case n.State == api.NodeExpected:
		return screen.Cell{Text: "may enroll with the join token", Style: screen.Waiting}
	case n.LastSeenAt == nil:
		return screen.Cell{Text: "accepted by its certificate, but has not called yet", Style: screen.Waiting}
	}
	return screen.Cell{Text: "accepted by its certificate " + n.CertificateSerial, Style: screen.Waiting}
}

func restoredVolumes(volumes []api.Volume) screen.Table {
	table := screen.Table{Columns: []screen.Column{
		{Title: "ID"}, {Title: "RESOURCE", Spare: 1}, {Title: "PERMIT"}, {Title: "AFTER THAT", Flexible: true}}}
	for _, v := range volumes {
		after, tone := describe.RestoredVolume(v)
		table.Add(screen.Text(describe.Short(v.ID)), screen.Text(cmp.Or(v.ResourceID, none)), screen.Text(string(v.PermitState)), screen.Cell{Text: after, Style: style(tone)})
	}
	return table
}
