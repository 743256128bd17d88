package present

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// View is how much a table shows, and when.
type View struct {
	Wide bool
	Now  time.Time
}

// columns keeps those that are for this view: a title that begins with + is wide.
func (v View) columns(all ...screen.Column) []screen.Column {
	var kept []screen.Column
	for _, c := range all {
		title, wide := strings.CutPrefix(c.Title, "+")
		if c.Title = title; v.Wide || !wide {
			kept = append(kept, c)
		}
	}
	return kept
}

// cells is a row, with what only a wide table shows after it. A message comes last
// in every table: it may be long, and what stands behind it would be far away.
func (v View) cells(row []screen.Cell, extra ...string) []screen.Cell {
	if v.Wide {
		for _, text := range extra {
			row = append(row, screen.Text(text))
		}
	}
	return row
}

// instance is how a table of other objects shows one.
func (v View) instance(name, id string) string {
	switch {
	case id == "":
		return none
	case v.Wide:
		return describe.NameAndID(name, id)
	}
	return describe.InstanceName(name, id)
}

const unconfirmed = ", " + describe.Unconfirmed

// Instances is the table of instances.
func (v View) Instances(list []api.Instance) screen.Table {
	t := screen.Table{Columns: v.columns(
		screen.Column{Title: "ID"}, screen.Column{Title: "NAME", Flexible: true}, screen.Column{Title: "KIND", Spare: 2}, screen.Column{Title: "STATE"},
		screen.Column{Title: "NODES", Spare: 1}, screen.Column{Title: "MISSING FILES", Spare: 1}, screen.Column{Title: "CHANGED", Spare: 3},
		screen.Column{Title: "+VERSION"}, screen.Column{Title: "+STACK"}, screen.Column{Title: "+STACK STATUS"}, screen.Column{Title: "+WARNINGS"}, screen.Column{Title: "+LABELS"})}
	for _, i := range list {
		state := screen.Text(string(i.State))
		if i.Unconfirmed {
			state = screen.Cell{Text: state.Text + unconfirmed, Style: screen.Bad}
		}
		missing := screen.Cell{Text: strconv.Itoa(len(i.MissingFiles))}
		if len(i.MissingFiles) > 0 {
			missing.Style = screen.Bad
		}
		t.Add(v.cells([]screen.Cell{
			screen.Text(i.ID), screen.Text(cmp.Or(i.Name, none)), screen.Text(string(i.Kind)), state,
			screen.Text(strconv.Itoa(len(i.Nodes))), missing, screen.Text(since(v.Now, &i.UpdatedAt)),
		}, strconv.FormatInt(i.DesiredVersion, 10), cmp.Or(i.StackID, none), cmp.Or(stackStatus(i), none), strconv.Itoa(len(i.Warnings)), cmp.Or(describe.Labels(i.Labels), none))...)
	}
	return t
}

func stackStatus(i api.Instance) string {
	if i.Stack == nil {
		return ""
	}
	return i.Stack.Status
}

// Nodes is the table of nodes. VERSION is that of kubelet, if any node has one.
func (v View) Nodes(list []api.Node) screen.Table {
	columns := []screen.Column{
		{Title: "NAME"}, {Title: "ROLE", Spare: 1}, {Title: "STATE"}, {Title: "READY"},
		{Title: "SEEN", Spare: 2}, {Title: "ID", Spare: 3}, {Title: "INSTANCE", Spare: 4},
		{Title: "+ADDRESSES"}, {Title: "+GENERATION"}, {Title: "+AGENT"}, {Title: "+UPGRADE"}, {Title: "+ATTESTED"},
	}
	hasKubelet := slices.ContainsFunc(list, func(n api.Node) bool { return n.Status != nil && n.Status.Facts.KubeletVersion != "" })
	if hasKubelet {
		columns = append(columns, screen.Column{Title: "+VERSION"})
	}
	t := screen.Table{Columns: v.columns(append(columns, screen.Column{Title: "MESSAGE", Flexible: true})...)}
	for _, n := range list {
		id, agent, kubelet, upgrade, applied := describe.Short(n.ID), none, none, none, int64(0)
		if v.Wide {
			id = n.ID
		}
		state := screen.Cell{Text: string(n.State), Style: style(describe.OfNode(n.State))}
		if n.Unconfirmed {
			state = screen.Cell{Text: state.Text + unconfirmed, Style: screen.Bad}
		}
		if n.Status != nil {
			agent, applied = cmp.Or(n.Status.Facts.AgentVersion, none), n.Status.AppliedGeneration
			kubelet = cmp.Or(n.Status.Facts.KubeletVersion, none)
			if u := n.Status.AgentUpgrade; u != nil {
				upgrade = u.Reason
			}
		}
		extra := []string{cmp.Or(strings.Join(n.Addresses, ","), none), generations(applied, n.Generation), agent, upgrade, cmp.Or(string(n.Attestation), none)}
		if hasKubelet {
			extra = append(extra, kubelet)
		}
		t.Add(append(v.cells([]screen.Cell{
			screen.Text(n.Name), screen.Text(string(n.Role)), state, ready(n),
			screen.Text(since(v.Now, n.LastSeenAt)), screen.Text(id), screen.Text(v.instance(n.VnfInstanceName, n.VnfInstanceID)),
		}, extra...), screen.Text(describe.Why(n)))...)
	}
	return t
}

func generations(applied, present int64) string {
	return strconv.FormatInt(applied, 10) + "/" + strconv.FormatInt(present, 10)
}

// Operations is the table of operations.
func (v View) Operations(list []api.Operation) screen.Table {
	t := screen.Table{Columns: v.columns(
		screen.Column{Title: "ID"}, screen.Column{Title: "OPERATION"}, screen.Column{Title: "STATE"},
		screen.Column{Title: "STARTED", Spare: 3}, screen.Column{Title: "TOOK", Spare: 1}, screen.Column{Title: "INSTANCE", Spare: 4},
		screen.Column{Title: "+STACK"}, screen.Column{Title: "+KEY"}, screen.Column{Title: "MESSAGE", Flexible: true})}
	for _, o := range list {
		id := describe.ShortOperation(o)
		if v.Wide {
			id = o.ID
		}
		t.Add(append(v.cells([]screen.Cell{
			screen.Text(id), screen.Text(describe.OperationName(o)),
			{Text: string(o.State), Style: style(describe.OfOperation(o.State))},
			screen.Text(since(v.Now, &o.StartedAt)), screen.Text(describe.Took(o)), screen.Text(cmp.Or(o.VnfInstanceName, none)),
		}, cmp.Or(o.StackID, none), cmp.Or(o.IdempotencyKey, none)), screen.Text(describe.Operation(o)))...)
	}
	return t
}

// Volumes is the table of volumes.
func (v View) Volumes(list []api.Volume) screen.Table {
	t := screen.Table{Columns: v.columns(
		screen.Column{Title: "ID"}, screen.Column{Title: "RESOURCE", Flexible: true}, screen.Column{Title: "SIZE", Spare: 1},
		screen.Column{Title: "PERMIT"}, screen.Column{Title: "NODE", Spare: 2}, screen.Column{Title: "CHANGED", Spare: 3},
		screen.Column{Title: "INSTANCE", Spare: 4}, screen.Column{Title: "+FILESYSTEM UUID"})}
	for _, vol := range list {
		size, node := none, describe.Short(vol.NodeID)
		if vol.SizeBytes > 0 {
			size = describe.Size(vol.SizeBytes)
		}
		if v.Wide {
			node = vol.NodeID
		}
		t.Add(v.cells([]screen.Cell{
			screen.Text(vol.ID), screen.Text(cmp.Or(vol.ResourceID, none)), screen.Text(size), permit(vol), screen.Text(cmp.Or(node, none)),
			screen.Text(since(v.Now, vol.ChangedAt)), screen.Text(v.instance(vol.VnfInstanceName, vol.VnfInstanceID)),
		}, vol.FilesystemUUID)...)
	}
	return t
}

func permit(v api.Volume) screen.Cell {
	cell := screen.Cell{Text: string(v.PermitState), Style: style(describe.OfPermit(v.PermitState))}
	if v.Unconfirmed {
		cell = screen.Cell{Text: cell.Text + unconfirmed, Style: screen.Bad}
	}
	if v.ReformatRequested {
		cell.Text += ", reformat permitted"
	}
	return cell
}

// Tokens is the table of API tokens.
func (v View) Tokens(list []api.Token) screen.Table {
	t := screen.Table{Columns: v.columns(screen.Column{Title: "ID"}, screen.Column{Title: "NAME"},
		screen.Column{Title: "SCOPE"}, screen.Column{Title: "AGE", Spare: 1}, screen.Column{Title: "EXPIRES"})}
	for _, token := range list {
		expires := v.expires(token.ExpiresAt)
		if token.Unconfirmed {
			expires = screen.Cell{Text: expires.Text + unconfirmed, Style: screen.Bad}
		}
		t.Add(screen.Text(token.ID), screen.Text(token.Name), screen.Text(string(token.Scope)), screen.Text(since(v.Now, &token.CreatedAt)), expires)
	}
	return t
}

// expires is when a token expires, nil for never.
func (v View) expires(at *time.Time) screen.Cell {
	switch {
	case at == nil:
		return screen.Text("never")
	case at.After(v.Now):
		return screen.Text(describe.Relative(*at, v.Now))
	}
	return screen.Cell{Text: "expired", Style: screen.Bad}
}

// Replicas is the table of the controllers that share a store.
func (v View) Replicas(list []api.Replica) screen.Table {
	t := screen.Table{Columns: v.columns(screen.Column{Title: "ID"}, screen.Column{Title: "STATE"}, screen.Column{Title: "LAG", Spare: 1},
		screen.Column{Title: "TERM", Spare: 2}, screen.Column{Title: "SINCE", Spare: 3}, screen.Column{Title: "VERSION", Spare: 1},
		screen.Column{Title: "+SCHEMA"}, screen.Column{Title: "+URL"}, screen.Column{Title: "MESSAGE", Flexible: true})}
	for _, r := range list {
		term := none
		if r.Term != 0 {
			term = strconv.FormatInt(r.Term, 10)
		}
		t.Add(append(v.cells([]screen.Cell{
			screen.Text(r.ID), {Text: string(r.State), Style: style(describe.OfReplica(r))}, screen.Text(describe.Lag(r)),
			screen.Text(term), screen.Text(since(v.Now, r.LeaderSince)), screen.Text(r.Version),
		}, strconv.Itoa(r.Schema), cmp.Or(r.URL, none)), screen.Text(r.Message))...)
	}
	return t
}

// ClusterAccess is the table of the access to a cluster, without its secret.
func (v View) ClusterAccess(access api.ClusterAccess) screen.Table {
	t := screen.Table{Columns: []screen.Column{{Title: "ENDPOINT"}, {Title: "TOKEN EXPIRES"}}}
	t.Add(screen.Text(access.Endpoint), v.expires(access.TokenExpiresAt))
	return t
}
