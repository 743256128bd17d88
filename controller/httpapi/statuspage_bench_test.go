package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// BenchmarkStatusPage is what a page costs the controller of 2,000 nodes in 20 instances.
func BenchmarkStatusPage(b *testing.B) {
	w := newWorld(b)
	for i := range 20 {
		topology := wire.Topology{StackStatus: "CREATE_COMPLETE"}
		for n := range 100 {
			topology.Servers = append(topology.Servers, wire.Server{ID: fmt.Sprintf("3f0c1d52-0000-4000-8%03d-%012d", i, n), Name: fmt.Sprintf("worker%d", n),
				ConnectionPoints: []wire.ConnectionPoint{{Name: "workerNode_CP2", Addresses: []string{fmt.Sprintf("10.0.%d.%d", i, n)}}}})
		}
		body, err := json.Marshal(wire.InstanceSpec{Topology: &topology, AdditionalParams: json.RawMessage(`{"k8s_cluster_installation_param": {
			"script_path": "Scripts/install_k8s_cluster.sh",
			"master_node": {"ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "cluster_cp_name": "masterNode_CP1"},
			"worker_node": {"ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2"}}}`)})
		w.must(err)
		w.ok(w.as(w.operator, http.MethodPut, fmt.Sprintf("/v1/vnf_instances/b1bb0ce7-0000-4000-8000-%012d", i), string(body)), http.StatusCreated, nil)
	}
	cookie := w.signIn(w.viewer)
	for _, path := range []string{"/ui/", "/ui/instances", "/ui/instances/b1bb0ce7-0000-4000-8000-000000000000", "/ui/nodes", "/ui/nodes/3f0c1d52-0000-4000-8000-000000000000", "/ui/operations", "/ui/registries", "/ui/history"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if a := w.call(w.client, http.MethodGet, path, "", cookie, asFragment); a.status != http.StatusOK {
					b.Fatalf("%d %s", a.status, a.body)
				}
			}
		})
	}
}
