package plan

import "github.com/nodehitch/nodehitch/shared/api"

// addNFSClient makes a master or worker a client of the cluster's storage server.
// Where the cluster has none any more, nothing is said of it: the package stays.
func (n *Node) addNFSClient(in Input) {
	if in.Params.Cluster.StorageServer != nil {
		n.Config.NFSClient = &api.NFSClientSection{}
	}
}
