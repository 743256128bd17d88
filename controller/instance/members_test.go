package instance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTheAccessToACluster(t *testing.T) {
	refused := func(w *lcmtest.World, says ...string) {
		t.Helper()
		_, err := w.LCM.Instances.ClusterAccess(w.Ctx, lcmtest.InstanceID)
		w.WantRefused(err, api.ProblemNotFound, says...)
	}
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	refused(w, lcmtest.InstanceID, "its parameters have no cluster_members")
	w.Put(lcmtest.WithMembers(nil))
	refused(w, "has not reported any yet: NotEnrolled, its agent has not enrolled")
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer)
	w.ReportNotJoined(lcmtest.MasterServer)
	refused(w, "master ("+lcmtest.MasterServer+")", "NotJoined, ClusterMember")
	w.Converge(lcmtest.MasterServer)
	w.Converge(lcmtest.MasterServer) // what it has because it is a member, too
	refused(w, "is ready and has not reported any")
	half := lcmtest.ClusterFacts()
	half.Token = ""
	w.ReportCluster(lcmtest.MasterServer, half)
	refused(w, "has not reported any")
	w.ReportCluster(lcmtest.MasterServer, lcmtest.ClusterFacts())
	want := api.ClusterAccess{Endpoint: "10.10.0.5:6443", CACertificate: "PEM of the CA", Token: lcmtest.VIMToken, TokenExpiresAt: lcmtest.ClusterFacts().TokenExpiresAt}
	if diff := cmp.Diff(want, w.ClusterAccess()); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}

	outside := lcmtest.FullTopology()
	outside.Servers[1].ConnectionPoints = append(outside.Servers[1].ConnectionPoints,
		api.ConnectionPoint{Name: "masterNode_FIP", Addresses: []string{"10.10.0.5"}, FloatingAddresses: []string{"203.0.113.5"}})
	named := lcmtest.WithMembers(outside)
	named.AdditionalParams = json.RawMessage(strings.Replace(string(named.AdditionalParams), `"cluster_cp_name"`, `"cluster_fip_name": "masterNode_FIP", "cluster_cp_name"`, 1))
	w.Put(named)
	if got := w.ClusterAccess(); got.Endpoint != "203.0.113.5:6443" || w.Document(lcmtest.MasterServer).Cluster.ExternalAddress != "203.0.113.5" || w.Document(lcmtest.WorkerServer).Cluster.Endpoint != "10.10.0.5:6443" {
		t.Errorf("with a floating address it is %+v, and the master has %+v", got, w.Document(lcmtest.MasterServer).Cluster)
	}
}
