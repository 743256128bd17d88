package stacks

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestTwoHundredNodes observes a stack of that size.
func TestTwoHundredNodes(t *testing.T) {
	r := results.Begin(t, suite, "200-nodes", "a stack of 200 servers is observed with six calls")
	// By default Heat's engine has 64 threads, and members of a group that wait for theirs
	// hold one each.
	w := newEmptyWorld(t, map[string]string{"heat": "[DEFAULT]\nexecutor_thread_pool_size = 512\nrpc_conn_pool_size = 512\nrpc_response_timeout = 600"})
	w.noQuota()
	v := w.newVNF("simple", plainRequest, clusterPackage, map[string]any{"worker_min": 199, "worker_desired": 199, "worker_max": 199})
	v.template.TimeoutMinutes = 40
	began := time.Now()
	v.create()
	r.Figure("Heat creates it in", "%.0f s", time.Since(began).Seconds())
	calls := func() float64 {
		return w.metricSum("nodehitch_cloud_requests_total", "") - w.metricSum("nodehitch_cloud_requests_total", `service="identity"`)
	}
	before := calls()
	began = time.Now()
	v.operate(api.Instantiate, "--phase=START")
	took, made := time.Since(began), calls()-before
	r.Figure("the controller observes it in", "%.2f s, %.0f calls", took.Seconds(), made)
	if made > 6 {
		t.Errorf("%.0f calls; want six at most", made)
	}
	if n := len(v.nodes(api.RoleMaster)) + len(v.nodes(api.RoleWorker)); n != 200 {
		t.Errorf("it has %d nodes", n)
	}
}

// noQuota lets the project have as many servers as it likes.
func (w *world) noQuota() {
	w.T.Helper()
	project, err := w.account.ProjectID(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	none := map[string]any{"instances": -1, "cores": -1, "ram": -1, "server_groups": -1}
	ports := map[string]any{"port": -1}
	err = errors.Join(
		w.cloud.Admin.Call(w.T.Context(), http.MethodPut, openstack.NovaURL+"/os-quota-sets/"+project, map[string]any{"quota_set": none}, nil),
		w.cloud.Admin.Call(w.T.Context(), http.MethodPut, fmt.Sprintf("%s/quotas/%s", openstack.NeutronURL, project), map[string]any{"quota": ports}, nil))
	if err != nil {
		w.T.Fatal(err)
	}
}
