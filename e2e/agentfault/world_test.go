package agentfault

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/enrollment"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

const suite = "agentfault"

// world is a controller and an instance of workers, whose documents change with a
// parameter that changes nothing on a machine.
type world struct {
	*loopback.Controller
	t        *testing.T
	instance string
	servers  []string
	changes  int
	// refused is how many enrollments the controller refused until an operator allows
	// them.
	refused int
}

func newWorld(t *testing.T, workers int, o loopback.Options) *world {
	t.Helper()
	loopback.RequireRoot(t)
	if o.Settings == nil {
		o.Settings = map[string]string{}
	}
	o.Settings["log"] = "{level: debug}" // polls are counted there
	w := &world{Controller: loopback.Open(t, o), t: t, instance: uuid.NewString()}
	for range workers {
		w.servers = append(w.servers, uuid.NewString())
	}
	w.change()
	return w
}

// change gives every node another document.
func (w *world) change() {
	w.t.Helper()
	w.changes++
	role := func(cp string) map[string]any { return map[string]any{"ssh_cp_name": cp, "nic_cp_name": cp} }
	master := role("master_CP")
	master["cluster_cp_name"] = "master_CP"
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE"}
	for i, id := range w.servers {
		topology.Servers = append(topology.Servers, api.Server{ID: id, Name: fmt.Sprintf("worker-%d", i),
			ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{fmt.Sprintf("10.10.1.%d", i+1)}}}})
	}
	w.PutParams(w.instance, map[string]any{"k8s_cluster_installation_param": map[string]any{
		"script_path": "Scripts/install.sh", "master_node": master, "worker_node": role("worker_CP"),
		"proxy": map[string]any{"http_proxy": "http://proxy:3128", "https_proxy": "http://proxy:3128",
			"no_proxy": fmt.Sprintf("%d.example", w.changes), "k8s_node_cidr": "10.10.0.0/16"},
	}}, topology)
}

// agent starts the agent of a server.
func (w *world) agent(i int, wrap ...string) *loopback.Agent {
	w.t.Helper()
	return w.agentWith(i, loopback.AgentOptions{Wrap: wrap})
}

func (w *world) agentWith(i int, o loopback.AgentOptions) *loopback.Agent {
	w.t.Helper()
	o.ServerID, o.Config = w.servers[i], w.AgentConfig(w.instance)
	return loopback.StartAgent(w.t, o)
}

// current reports whether the node has applied its present document and reported it.
func (w *world) current(i int) bool {
	n := w.Node(w.servers[i])
	return n.Ready && n.Digest != "" && n.Status.AppliedDigest == n.Digest
}

// await is loopback.Until with a limit of its own.
func (w *world) await(within time.Duration, what string, ok func() bool) (took time.Duration) {
	w.t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(began) > within {
			w.t.Fatalf("after %v still not: %s", within, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// requests is how many requests of an operation the controller has answered, at least one.
func (w *world) requests(operation string) int {
	w.t.Helper()
	n := w.Logged("operation=" + operation)
	if n == 0 {
		w.t.Errorf("the controller's log has no %s: such requests cannot be counted there", operation)
	}
	return n
}

// refusals is how many enrollments the controller has refused.
func (w *world) refusals(fields ...string) int {
	return w.Logged(append(fields, "reason="+enrollment.EventRefused)...)
}

// enrollments is how many servers have got a certificate, by the result; at least one was
// for a server that had none.
func (w *world) enrollments() (enrolled, reissued int) {
	w.t.Helper()
	enrolled, reissued = w.Logged("result="+enrollment.EventEnrolled), w.Logged("result="+enrollment.EventReissued)
	if enrolled == 0 {
		w.t.Error("the controller's log has no enrollment: they cannot be counted there")
	}
	return enrolled, reissued
}
