package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// addStorageServer is addStorage for a cluster's storage server. If another server was told of
// the volumes while a heal would have kept PersistentVolumes, and is not known to be gone, it
// withholds them: two that mount one filesystem destroy it. Other parameters do not change that,
// nor does a withdrawal of the PersistentVolumes, which may be taken back until its END has come.
func (n *Node) addStorageServer(in Input, s api.Server, masters []string, c *CarriedOver) []VolumeUse {
	wanted := in.Params.Cluster.StorageServer
	fenced := c.VolumeServer != "" && c.VolumeServer != n.ID
	if fenced {
		n.withhold(api.SectionStorage, api.ReasonOldServerMayWrite, mayWrite(in, wanted))
	} else {
		c.VolumeServerShown = ""
	}
	n.withholdReplaced(in, wanted, c.VolumeIDs)
	uses := n.addStorage(in, s, storageOf(wanted))
	told := n.Config.Storage != nil
	switch {
	case fenced:
		for i := range uses {
			uses[i].NodeID = c.VolumeServer // its last document names them, and no other instance may have them
		}
	case told && wanted.KeepVolumes:
		c.VolumeServer, c.VolumeMasters = n.ID, masters
		c.VolumeIDs = nil
		if in.CarriedOver.Registered {
			c.VolumeIDs = idsOf(uses)
		}
	case told && c.VolumeServer == "": // it serves without a promise
		c.VolumeMasters, c.VolumeIDs = nil, nil
	}
	return uses
}

// followMasters keeps the masters of the cluster whose PersistentVolumes are kept, as long as one of
// them stays. A cluster that is gone has taken its PersistentVolumes along, and any volume will do.
func (c *CarriedOver) followMasters(masters []string) {
	switch {
	case slices.ContainsFunc(c.VolumeMasters, func(id string) bool { return slices.Contains(masters, id) }):
		c.VolumeMasters = masters
	case len(c.VolumeMasters) > 0 && len(masters) > 0:
		c.VolumeIDs = nil
	}
}

// withholdReplaced withholds the volumes if the topology has another one than the PersistentVolumes
// that are kept are on: they would lead to other data, or to an empty filesystem. Of one that an operator
// has adopted, the operator has said what it holds.
func (n *Node) withholdReplaced(in Input, wanted *params.StorageServer, kept map[string]string) {
	for _, w := range wanted.Volumes {
		v, found := volumeOf(in.Topology, w.ResourceID)
		if before := kept[w.ResourceID]; found && before != "" && v.ID != before && filesystemUUID(in, v.ID) == api.FilesystemUUID(v.ID) {
			n.withhold(api.SectionStorage, api.ReasonVolumeReplaced, VolumeReplaced(w.ResourceID, v.ID, before))
		}
	}
}

// VolumeReplaced is why a volume is not given to a storage server whose PersistentVolumes are kept.
func VolumeReplaced(resourceID, id, kept string) string {
	return fmt.Sprintf("the volume %q is %s; the PersistentVolumes that are kept are on %s: "+
		"give the storage server that one, or delete the claims and heal with withdraw", resourceID, id, kept)
}

// idsOf are the ids of volumes by their resource ids.
func idsOf(uses []VolumeUse) map[string]string {
	ids := map[string]string{}
	for _, u := range uses {
		ids[u.ResourceID] = u.ID
	}
	return ids
}

// mayWrite is why the volumes are withheld.
func mayWrite(in Input, wanted *params.StorageServer) string {
	var names []string
	for _, v := range wanted.Volumes {
		names = append(names, v.ResourceID)
	}
	return fmt.Sprintf("the storage server before, %s (%s), had %s and may still write to it: %s. The controller asks the cloud again and again; "+
		"if you know that the old server is off for good, post the END of a HEAL that names the new one, with oldServerIsOff and without a key",
		cmp.Or(in.VolumeServerName, "which has no name"), in.CarriedOver.VolumeServer, strings.Join(names, ", "),
		cmp.Or(in.CarriedOver.VolumeServerShown, "it is not known what the cloud shows"))
}
