package trust

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/api"
)

// join is an instance whose master is a member of its cluster and says how a VIM uses it. The
// machine is played: the secrets are those of the controller, whatever joins the cluster.
func (s *secretive) join(t *testing.T) {
	s.joined = uuid.NewString()
	master := s.boot(uuid.NewString())
	params := map[string]any{"k8s_cluster_installation_param": map[string]any{"script_path": "Scripts/install.sh", "cluster_members": map[string]any{},
		"master_node": map[string]any{"ssh_cp_name": "master_CP", "cluster_cp_name": "master_CP"}, "worker_node": map[string]any{"ssh_cp_name": "worker_CP"}}}
	spec := api.InstanceSpec{AdditionalParams: json.RawMessage(asJSON(t, params)), Topology: &api.Topology{Servers: []api.Server{{ID: master.id, Name: "master",
		ConnectionPoints: []api.ConnectionPoint{{Name: "master_CP", Addresses: []string{"10.10.0.7"}}}}}}}
	must(t, s.caller().call(http.MethodPut, "/v1/vnf_instances/"+s.joined, asJSON(t, spec), bearer(s.operator)), http.StatusCreated)
	must(t, master.enroll(s.JoinToken(s.joined), nil), http.StatusCreated)
	poll := func() (config api.NodeConfig) {
		got := master.call(http.MethodGet, "/v1/node/config", "", "Nodehitch-Agent: "+api.ThisAgent("v1").Header())
		must(t, got, http.StatusOK)
		if err := json.Unmarshal([]byte(got.body), &config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	config := poll()
	s.given["the token of the cluster's VIM"] = "s3cr3t.vim-4a4a.of-the-cluster"
	said := api.NodeStatus{Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		Conditions: []api.Condition{{Type: api.ConditionClusterMember, Status: api.ConditionTrue, Reason: api.ReasonJoined, ObservedGeneration: config.Generation, LastTransitionTime: time.Now()}},
		Cluster:    &api.ClusterFacts{CACertificateHash: "sha256:" + strings.Repeat("0", 64), CACertificate: "PEM", Token: s.given["the token of the cluster's VIM"]}}
	must(t, master.call(http.MethodPut, "/v1/node/status", asJSON(t, said)), http.StatusNoContent)
	if config = poll(); config.ClusterMembers == nil {
		t.Fatalf("the member has %v", config.Sections())
	}
	s.given["a bootstrap token"], s.given["the masters' certificate key"] = config.Cluster.BootstrapToken, config.Cluster.CertificateKey
}
