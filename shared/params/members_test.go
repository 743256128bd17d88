package params_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/params"
)

// cluster is the parameters of a cluster, with these attributes besides the required ones.
func cluster(attributes string) json.RawMessage {
	return json.RawMessage(`{"k8s_cluster_installation_param": {"script_path": "Scripts/install.sh",
		"master_node": {"ssh_cp_name": "m", "cluster_cp_name": "vip"}, "worker_node": {"ssh_cp_name": "w"}` + attributes + `}}`)
}

// Without cluster_members nodehitch has nothing to do with the members of the cluster; the
// empty object is enough to change that.
func TestClusterMembers(t *testing.T) {
	for name, c := range map[string]struct {
		given string
		want  *params.ClusterMembers
		warns string
	}{
		"absent":                    {"", nil, ""},
		"an empty text":             {`, "cluster_members": ""`, nil, "is empty; taken as absent"},
		"empty":                     {`, "cluster_members": {}`, &params.ClusterMembers{EndpointPort: 6443, Access: params.AccessTacker}, ""},
		"all":                       {`, "cluster_members": {"endpoint_port": 16443, "delete_unmanaged_pods": true, "cluster_access": "tacker"}`, &params.ClusterMembers{EndpointPort: 16443, DeleteUnmanagedPods: true, Access: params.AccessTacker}, ""},
		"a port in quotation marks": {`, "cluster_members": {"endpoint_port": "443", "delete_unmanaged_pods": false}`, &params.ClusterMembers{EndpointPort: 443, Access: params.AccessTacker}, ""},
		"cluster-admin":             {`, "cluster_members": {"cluster_access": "cluster-admin"}`, &params.ClusterMembers{EndpointPort: 6443, Access: params.AccessAdmin}, `/cluster_members/cluster_access: "cluster-admin" lets each holder of the VIM's token do everything`},
		"misspelt":                  {`, "cluster_members": {"endpointPort": 443}`, &params.ClusterMembers{EndpointPort: 6443, Access: params.AccessTacker}, `did you mean "endpoint_port"?`},
	} {
		t.Run(name, func(t *testing.T) {
			p, report := params.Parse(cluster(c.given), "")
			if p == nil {
				t.Fatalf("refused: %v", report.Faults)
			}
			if diff := cmp.Diff(c.want, p.Cluster.Members); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			switch warned := findings(report); {
			case c.warns == "" && warned != "", !strings.Contains(warned, c.warns):
				t.Errorf("warnings %q, want one that says %q", warned, c.warns)
			}
		})
	}
}
