package restore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// The real agent; its controller is restored from a backup from before its enrollment, and
// nothing is changed on the machine.
func TestTheAgentKeepsItsFilesUntilConfirmation(t *testing.T) {
	loopback.RequireRoot(t)
	both(t, "the real agent", "the agent keeps its certificate and its configuration while its instance is unconfirmed, and works again after the confirmation without a change on the machine", func(w *controller, lost bool) {
		file := w.backup()
		agent := loopback.StartAgent(w.t, loopback.AgentOptions{ServerID: worker, Config: w.AgentConfig(instance)})
		ready := func() bool { return w.Node(worker).Ready && agent.Status().Controller.Connected }
		loopback.Until(w.t, "the agent is ready", ready)
		loopback.Until(w.t, "the agent has kept its configuration", func() bool {
			_, err := os.Stat(filepath.Join(agent.State(), "last-known-good.json"))
			return err == nil
		})
		before, state := agent.Status(), w.state(agent)
		w.restored(file, lost)
		loopback.Until(w.t, "the agent is told to wait", func() bool {
			return strings.Contains(agent.Status().Controller.LastError, "hitchctl confirm instance "+instance)
		})
		loopback.Until(w.t, "the operator sees that it has called", func() bool { return w.Node(worker).LastSeenAt != nil })
		n := w.Node(worker)
		w.letIn("the unconfirmed agent", !n.Unconfirmed || n.Ready || agent.Status().Controller.Connected)
		if after := w.state(agent); after != state {
			w.t.Errorf("unconfirmed, the agent has changed its files from %s to %s", state, after)
		}
		w.confirm()
		loopback.Until(w.t, "the agent is back", ready)
		after := agent.Status()
		if after.Controller.CertificateSerial != before.Controller.CertificateSerial {
			w.t.Errorf("it came back with the certificate %s, before it had %s: it enrolled anew", after.Controller.CertificateSerial, before.Controller.CertificateSerial)
		}
		if after.Node.Epoch == before.Node.Epoch {
			w.t.Errorf("it still reports the epoch %d", after.Node.Epoch)
		}
		if n := w.enrollments(); n != 1 {
			w.t.Errorf("the agent has enrolled %d times, expected once, before the backup came back", n)
		}
	})
}

// enrollments is how many requests to enroll the controllers have granted.
func (w *controller) enrollments() int { return w.Logged("operation=enroll", "status=201") }

// state is the agent's identity and its last known good configuration.
func (w *controller) state(agent *loopback.Agent) string {
	w.t.Helper()
	var all strings.Builder
	w.must(filepath.WalkDir(agent.State(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(content))
		return err
	}))
	return all.String()
}
