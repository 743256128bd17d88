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

// volumeRow names the node if it is among nodes.
func (f Frame) volumeRow(v api.Volume, nodes map[string]string) volumeRow {
	permit, meaning := describe.Permit(v)
	row := volumeRow{Volume: volumeName(v.ID), Resource: cmp.Or(v.ResourceID, describe.None), Size: describe.None,
		Permit: unconfirmed(toned(describe.OfPermit(v.PermitState), permit), v.Unconfirmed), Meaning: meaning, Changed: f.age(v.ChangedAt)}
	if v.SizeBytes > 0 {
		row.Size = describe.Size(v.SizeBytes)
	}
	if v.NodeID != "" {
		node := nodeName(nodes[v.NodeID], v.NodeID)
		row.Node = &node
	}
	if v.VnfInstanceID != "" {
		instance := instanceName(v.VnfInstanceName, v.VnfInstanceID)
		row.Instance = &instance
	}
	return row
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
	names := namesOf(v.Nodes)
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
		rows = append(rows, f.volumeRow(vol, names))
	}
	return content{name: "volumes", title: "Volumes", lead: "Cinder volumes, and whether a node may format them. A disk with data on it is never formatted.", filter: &form,
		changed: []string{ChangedVolumes}, data: volumesPage{Rows: rows, Pager: pager}}
}

var permitStates = []api.PermitState{api.PermitNone, api.PermitGranted, api.PermitStarted, api.PermitFormatted, api.PermitInterrupted, api.PermitAdopted}

type volumePage struct {
	ID       string
	Permit   badge
	Meaning  string
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
	if vol.Unconfirmed {
		p.Meaning, _ = describe.RestoredVolume(vol)
	}
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
	p.Facts = fields(append(list, field{Label: "Filesystem", Text: "ext4, UUID " + vol.FilesystemUUID}, field{Label: "Changed", Time: f.both(vol.ChangedAt)})...)
	var nodes []api.Node
	if v.Node != nil {
		nodes = append(nodes, *v.Node)
	}
	p.Commands = append([]command{hitchctl("the same on a terminal", "describe", "volume", vol.ID)}, volumeCommands(vol, nodes)...)
	return content{name: "volume", title: "Volume " + describe.Short(vol.ID), section: PathVolumes, changed: []string{ChangedVolumes, ChangedEvents}, data: p}
}
