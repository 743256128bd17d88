package plan

import "github.com/nodehitch/nodehitch/shared/api"

// addNFSClient makes a master or worker a client of the cluster's storage server.
// If the cluster no longer has one, there is no section: the package stays.
func (n *Node) addNFSClient(in Input) {
	section := &api.NFSClientSection{}
	if in.Params.Cluster.StorageServer != nil && n.takes(in, api.SectionNFSClient, section) {
		n.Config.NFSClient = section
	}
}
