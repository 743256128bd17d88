package page

import (
	"cmp"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// volumeRow is a volume in a list.
type volumeRow struct {
	Volume         name
	Resource, Size string
	Permit         badge
	Meaning        string
	Node, Instance *name
	Changed        stamp
}

// volumeRow names the node if it is among nodes, and says what that node has found.
func (f Frame) volumeRow(v api.Volume, nodes map[string]*api.Node) volumeRow {
	permit, meaning := describe.Permit(v)
	row := volumeRow{Volume: volumeName(v.ID), Resource: cmp.Or(v.ResourceID, describe.None), Size: describe.None,
		Permit: unconfirmed(toned(describe.OfPermit(v.PermitState), permit), v.Unconfirmed), Meaning: meaning, Changed: f.age(v.ChangedAt)}
	if v.SizeBytes > 0 {
		row.Size = describe.Size(v.SizeBytes)
	}
	if v.NodeID != "" {
		node := nodeName("", v.NodeID)
		if n := nodes[v.NodeID]; n != nil {
			node = nodeName(n.Name, n.ID)
			if c, ok := describe.Finding(v, *n); ok && !v.ReformatRequested {
				row.Meaning = describe.ReasonAndMessage(c.Reason, c.Message)
			}
		}
		row.Node = &node
	}
	if v.VnfInstanceID != "" {
		instance := instanceName(v.VnfInstanceName, v.VnfInstanceID)
		row.Instance = &instance
	}
	return row
}

// byID are nodes by their ids.
func byID(nodes []api.Node) map[string]*api.Node {
	found := make(map[string]*api.Node, len(nodes))
	for i := range nodes {
		found[nodes[i].ID] = &nodes[i]
	}
	return found
}

// namesOf are the names of nodes by their ids.
func namesOf(nodes []api.Node) map[string]string {
	names := make(map[string]string, len(nodes))
	for _, n := range nodes {
		names[n.ID] = n.Name
	}
	return names
}

type volumesPage struct {
	Rows  []volumeRow
	Pager pager
}

func (v Volumes) content(f Frame) content {
	query := f.query()
	names, nodes := namesOf(v.Nodes), byID(v.Nodes)
	var found []api.Volume
	for _, vol := range v.Volumes {
		if fits(query, "permit", vol.PermitState) && begins(query, "instance", vol.VnfInstanceID, vol.VnfInstanceName) &&
			contains(query, vol.ID, vol.ResourceID, vol.NodeID, names[vol.NodeID], vol.FilesystemUUID) {
			found = append(found, vol)
		}
	}
	form := newFilter(f, PathVolumes, textControl("id, resource, node, UUID"), choice("permit", "Permit", permitStates...),
		control{Name: "instance", Label: "Instance", Hint: nameHint})
	shown, pager := paged(f, form, found, len(v.Volumes))
	rows := make([]volumeRow, 0, len(shown))
	for _, vol := range shown {
		rows = append(rows, f.volumeRow(vol, nodes))
	}
	return content{name: "volumes", title: "Volumes", lead: "Cinder volumes, and whether a node may format them. A disk with data on it is never formatted, unless an operator says `hitchctl volume reformat`.", filter: &form,
		changed: []string{ChangedVolumes, ChangedNodes}, data: volumesPage{Rows: rows, Pager: pager}}
}

var permitStates = []api.PermitState{api.PermitNone, api.PermitGranted, api.PermitStarted, api.PermitFormatted, api.PermitInterrupted, api.PermitAdopted}

type volumePage struct {
	ID      string
	Permit  badge
	Meaning string
	// Finding is what its node has found, nil for nothing; Decide is whether an operator has to.
	Finding  *decision
	Decide   bool
	Facts    []field
	Events   []eventRow
	History  string
	Commands []command
}

func (v Volume) content(f Frame) content {
	vol := v.Volume
	permit, meaning := describe.Permit(vol)
	p := volumePage{ID: vol.ID, Permit: unconfirmed(toned(describe.OfPermit(vol.PermitState), permit), vol.Unconfirmed), Meaning: meaning,
		Events: f.newest(v.Events, fewEvents), History: withQuery(PathHistory, map[string][]string{"volume": {vol.ID}})}
	list := []field{{Label: "Id", Text: vol.ID}, {Label: "Resource", Text: vol.ResourceID}}
	if vol.VnfInstanceID != "" {
		instance := instanceName(vol.VnfInstanceName, vol.VnfInstanceID)
		list = append(list, field{Label: "Instance", Link: &instance})
	}
	if vol.NodeID != "" {
		node := nodeName("", vol.NodeID)
		if v.Node != nil {
			node = nodeName(v.Node.Name, v.Node.ID)
		}
		list = append(list, field{Label: "Node", Link: &node})
	}
	if vol.PermitNodeID != "" {
		node := nodeName("", vol.PermitNodeID)
		list = append(list, field{Label: "Permit for", Link: &node})
	}
	if vol.SizeBytes > 0 {
		list = append(list, field{Label: "Size", Text: fmt.Sprintf("%s (%d bytes)", describe.Size(vol.SizeBytes), vol.SizeBytes)})
	}
	filesystem := field{Label: "Filesystem", Text: "ext4, UUID " + vol.FilesystemUUID}
	if describe.NeverFormatted(vol) {
		filesystem = field{Label: "UUID that a format would give", Text: vol.FilesystemUUID}
	}
	p.Facts = fields(append(list, filesystem, field{Label: "Changed", Time: f.both(vol.ChangedAt)})...)
	var nodes []api.Node
	if v.Node != nil {
		nodes = append(nodes, *v.Node)
		p.Finding = finding(vol, *v.Node)
		p.Decide = p.Finding != nil && p.Finding.Badge == stopped && !vol.ReformatRequested
	}
	p.Commands = append([]command{hitchctl("the same on a terminal", "describe", "volume", vol.ID)}, volumeCommands(vol, nodes)...)
	return content{name: "volume", title: "Volume " + describe.Short(vol.ID), section: PathVolumes, changed: []string{ChangedVolumes, ChangedNodes, ChangedEvents}, data: p}
}

// finding is what a node has found of a volume that it cannot mount.
func finding(v api.Volume, n api.Node) *decision {
	c, ok := describe.Finding(v, n)
	if !ok {
		return nil
	}
	d := decisionOf(c.Reason)
	d.Objects, d.Message = []name{nodeName(n.Name, n.ID)}, c.Message
	return &d
}
