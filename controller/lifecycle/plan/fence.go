package plan

import (
	"cmp"
	"fmt"
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
	uses := n.addStorage(in, s, storageOf(wanted))
	switch {
	case fenced:
		for i := range uses {
			uses[i].NodeID = c.VolumeServer // its last document names them, and no other instance may have them
		}
	case wanted.KeepVolumes && n.Config.Storage != nil:
		c.VolumeServer, c.VolumeMasters = n.ID, masters
	}
	return uses
}

// mayWrite is why the volumes are withheld.
func mayWrite(in Input, wanted *params.StorageServer) string {
	var names []string
	for _, v := range wanted.Volumes {
		names = append(names, v.ResourceID)
	}
	return fmt.Sprintf("the storage server before, %s (%s), had %s and may still write to it: %s. The controller asks the cloud again and again; "+
		"if you know that the old server is off for good, post the END of a HEAL that names the storage server, with oldServerIsOff",
		cmp.Or(in.VolumeServerName, "which has no name"), in.CarriedOver.VolumeServer, strings.Join(names, ", "),
		cmp.Or(in.CarriedOver.VolumeServerShown, "it is not known what the cloud shows"))
}
