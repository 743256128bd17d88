package instance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTheAccessToACluster(t *testing.T) {
	refused := func(w *lifecycletest.World, says ...string) {
		t.Helper()
		_, err := w.Lifecycle.Instances.ClusterAccess(w.Ctx, lifecycletest.InstanceID)
		w.WantRefused(err, api.ProblemNotFound, says...)
	}
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	refused(w, lifecycletest.InstanceID, "its parameters have no cluster_members")
	w.Put(lifecycletest.WithMembers(nil))
	refused(w, "has not reported any yet: NotEnrolled, its agent has not enrolled")
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer)
	w.ReportNotJoined(lifecycletest.MasterServer)
	refused(w, "master ("+lifecycletest.MasterServer+")", "NotJoined, ClusterMember")
	w.Converge(lifecycletest.MasterServer)
	w.Converge(lifecycletest.MasterServer) // what it has because it is a member, too
	refused(w, "is ready and has not reported any")
	half := lifecycletest.ClusterFacts()
	half.Token = ""
	w.ReportCluster(lifecycletest.MasterServer, half)
	refused(w, "has not reported any")
	w.ReportCluster(lifecycletest.MasterServer, lifecycletest.ClusterFacts())
	want := api.ClusterAccess{Endpoint: "10.10.0.5:6443", CACertificate: "PEM of the CA", Token: lifecycletest.VIMToken, TokenExpiresAt: lifecycletest.ClusterFacts().TokenExpiresAt}
	if diff := cmp.Diff(want, w.ClusterAccess()); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}

	outside := lifecycletest.FullTopology()
	outside.Servers[1].ConnectionPoints = append(outside.Servers[1].ConnectionPoints,
		api.ConnectionPoint{Name: "masterNode_FIP", Addresses: []string{"10.10.0.5"}, FloatingAddresses: []string{"203.0.113.5"}})
	named := lifecycletest.WithMembers(outside)
	named.AdditionalParams = json.RawMessage(strings.Replace(string(named.AdditionalParams), `"cluster_cp_name"`, `"cluster_fip_name": "masterNode_FIP", "cluster_cp_name"`, 1))
	w.Put(named)
	if got := w.ClusterAccess(); got.Endpoint != "203.0.113.5:6443" || w.Document(lifecycletest.MasterServer).Cluster.ExternalAddress != "203.0.113.5" || w.Document(lifecycletest.WorkerServer).Cluster.Endpoint != "10.10.0.5:6443" {
		t.Errorf("with a floating address it is %+v, and the master has %+v", got, w.Document(lifecycletest.MasterServer).Cluster)
	}
}
