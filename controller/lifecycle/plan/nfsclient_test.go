package plan

import (
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

const workerID = "33333333-6977-49ff-83ac-7756572ed186"

// withWorker is the sample's cluster with a worker.
func withWorker() Input {
	in := input()
	in.Topology.Servers = append(in.Topology.Servers, api.Server{
		ID: workerID, Name: "worker", ConnectionPoints: []api.ConnectionPoint{{Name: "workerNode_CP2"}},
	})
	return in
}

func TestMastersAndWorkersOfAClusterWithAStorageServerAreNFSClients(t *testing.T) {
	out := Make(withWorker())
	for id, want := range map[string]bool{masterID: true, workerID: true, storageID: false} {
		if got := node(t, out, id).Config.NFSClient != nil; got != want {
			t.Errorf("%s has the section: %v, want %v", id, got, want)
		}
	}
	if len(out.Warnings) > 0 {
		t.Errorf("warnings %v", out.Warnings)
	}
}

// The client waits for nothing: the storage server may lack its volume, or be away.
func TestTheClientDoesNotWaitForTheServer(t *testing.T) {
	in := withWorker()
	in.Topology.Volumes = nil
	in.Topology.Servers = in.Topology.Servers[1:]
	if n := node(t, Make(in), workerID); n.Config.NFSClient == nil || len(n.Withheld) > 0 {
		t.Errorf("worker: %+v", n)
	}
}

func TestWithoutAStorageServerTheClientIsLeftAsItIs(t *testing.T) {
	in := withWorker()
	in.Params.Cluster.StorageServer = nil
	out := Make(in)
	for _, id := range []string{masterID, workerID} {
		if n := node(t, out, id); n.Config.NFSClient != nil {
			t.Errorf("%s has the section", n.Name)
		}
	}
}
