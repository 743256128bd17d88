package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// wantedStorage is what a server is to mount and to export.
type wantedStorage struct {
	volumes       []params.Volume
	exports       []params.Export
	clientRecords string
}

func storageOf(s *params.StorageServer) wantedStorage {
	return wantedStorage{volumes: s.Volumes, exports: s.Exports, clientRecords: s.ClientRecords()}
}

// addStorage gives a server its volumes and exports, or withholds the section whole:
// with one of two volumes the document would order the other one unmounted.
func (n *Node) addStorage(in Input, s api.Server, wanted wantedStorage) []VolumeUse {
	section := &api.StorageSection{Exports: exports(wanted.exports), ClientRecords: wanted.clientRecords}
	var uses []VolumeUse
	for _, v := range wanted.volumes {
		use, problem := n.resolve(in, s, v)
		if use != nil {
			uses = append(uses, *use)
		}
		if problem != nil {
			n.withhold(api.SectionStorage, problem.reason, problem.message)
			continue
		}
		section.Volumes = append(section.Volumes, api.StorageVolume{
			VolumeID: use.ID, SizeBytes: use.SizeBytes, MountPath: v.MountTo,
			Filesystem: api.Ext4, FilesystemUUID: filesystemUUID(in, use.ID),
			ReformatRequested:   in.Volumes[use.ID].ReformatBy == s.ID,
			FormatInterruptedBy: in.Volumes[use.ID].InterruptedBy,
		})
	}
	slices.SortFunc(uses, func(a, b VolumeUse) int { return cmp.Compare(a.ID, b.ID) })
	if n.withholds(api.SectionStorage) {
		return uses
	}
	slices.SortFunc(section.Volumes, func(a, b api.StorageVolume) int { return cmp.Compare(a.MountPath, b.MountPath) })
	if !n.takes(in, api.SectionStorage, section) {
		return uses
	}
	n.Config.Storage = section
	for i := range uses {
		uses[i].NodeID = n.ID
	}
	return uses
}

func exports(wanted []params.Export) []api.StorageExport {
	list := []api.StorageExport{}
	for _, e := range wanted {
		for _, client := range e.To {
			list = append(list, api.StorageExport{Directory: e.Directory, Client: client, Options: slices.Clone(e.Options)})
		}
	}
	slices.SortFunc(list, func(a, b api.StorageExport) int {
		return cmp.Or(cmp.Compare(a.Directory, b.Directory), cmp.Compare(a.Client, b.Client))
	})
	return list
}

func filesystemUUID(in Input, volumeID string) string {
	if known := in.Volumes[volumeID].FilesystemUUID; known != "" {
		return known
	}
	return api.FilesystemUUID(volumeID)
}

// problem is why a volume cannot be given to its server.
type problem struct {
	reason  api.Reason
	message string
}

// resolve finds the volume that the parameters want on the server. The use is nil
// if the topology does not have it; both are set if it exists and may not be used.
func (n *Node) resolve(in Input, s api.Server, wanted params.Volume) (*VolumeUse, *problem) {
	v, ok := volumeOf(in.Topology, wanted.ResourceID)
	if !ok {
		return nil, &problem{api.ReasonVolumeUnresolved, fmt.Sprintf(
			"volume_resource_id %q is not in the topology (%s); add it to topology.volumes with its Cinder id",
			wanted.ResourceID, has(in.Topology))}
	}
	use := &VolumeUse{ID: v.ID, ResourceID: v.ResourceID, SizeBytes: v.SizeBytes, AttachedTo: attachedTo(in.Topology, v.ID)}
	switch holder := in.Volumes[v.ID].HeldBy; {
	case len(use.AttachedTo) > 1:
		return use, &problem{api.ReasonMultiAttached, fmt.Sprintf(
			"volume %s (%s) is attached to %s; detach it from all but %s (%s)",
			v.ID, v.ResourceID, strings.Join(use.AttachedTo, " and "), s.Name, s.ID)}
	case holder != "":
		return use, &problem{api.ReasonMultiAttached, fmt.Sprintf(
			"volume %s (%s) is in use by %s; terminate that instance, or give it a topology without this volume",
			v.ID, v.ResourceID, holder)}
	case !mayHave(s, use):
		return use, &problem{api.ReasonVolumeUnresolved, fmt.Sprintf(
			"volume %s (%s) is %s, not to the %s server %s (%s); attach it there and name it in that server's volumeIds",
			v.ID, v.ResourceID, attachment(use), n.Role, s.Name, s.ID)}
	}
	return use, nil
}

// mayHave: a server that says what is attached to it has what it says; one that
// says nothing has what no other server claims.
func mayHave(s api.Server, use *VolumeUse) bool {
	if len(s.VolumeIds) == 0 {
		return len(use.AttachedTo) == 0
	}
	return slices.Contains(use.AttachedTo, s.ID)
}

func attachment(use *VolumeUse) string {
	if len(use.AttachedTo) == 0 {
		return "attached to no server"
	}
	return "attached to " + use.AttachedTo[0]
}

func volumeOf(t *api.Topology, resourceID string) (api.TopologyVolume, bool) {
	i := slices.IndexFunc(t.Volumes, func(v api.TopologyVolume) bool { return v.ResourceID == resourceID })
	if i < 0 {
		return api.TopologyVolume{}, false
	}
	return t.Volumes[i], true
}

func attachedTo(t *api.Topology, volumeID string) []string {
	var ids []string
	for _, s := range t.Servers {
		if slices.Contains(s.VolumeIds, volumeID) {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// has lists the volumes of the topology for a message.
func has(t *api.Topology) string {
	if len(t.Volumes) == 0 {
		return "which has no volumes"
	}
	var names []string
	for _, v := range t.Volumes {
		names = append(names, v.ResourceID)
	}
	slices.Sort(names)
	return "which has " + strings.Join(names, ", ")
}
