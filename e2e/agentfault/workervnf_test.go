package agentfault

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

const suite = "agentfault"

// workerVNF is a controller and an instance of workers, whose documents change with a
// parameter that changes nothing on a machine.
type workerVNF struct {
	*loopback.Controller
	t        *testing.T
	instance string
	servers  []string
	changes  int
	// refused is how many enrollments the controller refused until an operator allows
	// them.
	refused int
}

func newWorkerVNF(t *testing.T, workers int, o loopback.Options) *workerVNF {
	t.Helper()
	loopback.RequireRoot(t)
	if o.Settings == nil {
		o.Settings = map[string]string{}
	}
	o.Settings["log"] = "{level: debug}" // polls are counted there
	w := &workerVNF{Controller: loopback.Open(t, o), t: t, instance: uuid.NewString()}
	for range workers {
		w.servers = append(w.servers, uuid.NewString())
	}
	w.change()
	return w
}

// change gives every node another document.
func (w *workerVNF) change() {
	w.t.Helper()
	w.changes++
	params := loopback.ClusterParams("http://proxy:3128")
	proxy := loopback.ClusterOf(params)["proxy"].(map[string]any)
	proxy["no_proxy"] = fmt.Sprintf("%d.example", w.changes)
	w.PutParams(w.instance, params, loopback.Workers(func(_, i int) string { return w.servers[i] }, 0, len(w.servers)))
}

// agent starts the agent of a server.
func (w *workerVNF) agent(i int, wrap ...string) *loopback.Agent {
	w.t.Helper()
	return w.agentWith(i, loopback.AgentOptions{Wrap: wrap})
}

func (w *workerVNF) agentWith(i int, o loopback.AgentOptions) *loopback.Agent {
	w.t.Helper()
	o.ServerID, o.Config = w.servers[i], w.AgentConfig(w.instance)
	return loopback.StartAgent(w.t, o)
}

// current reports whether the node has applied its present document and reported it.
func (w *workerVNF) current(i int) bool {
	n := w.Node(w.servers[i])
	return n.Ready && n.Digest != "" && n.Status.AppliedDigest == n.Digest
}

// requests is how many requests of an operation the controller has answered, at least one.
func (w *workerVNF) requests(operation string) int {
	w.t.Helper()
	n := w.Logged("operation=" + operation)
	if n == 0 {
		w.t.Errorf("the controller's log has no %s: such requests cannot be counted there", operation)
	}
	return n
}

// refusals is how many enrollments the controller has refused.
func (w *workerVNF) refusals(fields ...string) int {
	return w.Logged(append(fields, "reason="+enrollment.EventRefused)...)
}

// enrollments is how many servers have got a certificate, by the result; at least one was
// for a server that had none.
func (w *workerVNF) enrollments() (enrolled, reissued int) {
	w.t.Helper()
	enrolled, reissued = w.Logged("result="+enrollment.EventEnrolled), w.Logged("result="+enrollment.EventReissued)
	if enrolled == 0 {
		w.t.Error("the controller's log has no enrollment: they cannot be counted there")
	}
	return enrolled, reissued
}
