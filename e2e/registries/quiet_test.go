package registries

import (
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// picture is what a second run must leave as it is: every file of the machine's
// configuration and of the agent's making with the time of its last change, the
// engines' processes with the time of their last start or reload, and the containers.
func (m *machine) picture() string {
	m.W.T.Helper()
	return m.Run("sh", "-c", `
		find /etc /root /home /var/lib/kubelet /var/lib/nodehitch/agent/files -path '*/docker/registry/*' -prune -o \
			-printf '%p %y %m %s %C@\n' 2>/dev/null | sort
		systemctl show --property=Id,MainPID,ActiveState,StateChangeTimestampMonotonic docker containerd
		docker ps --all --quiet --no-trunc | sort | xargs -r docker inspect --format '{{.Name}} {{.Id}} {{.State.StartedAt}} {{.RestartCount}}'`)
}

// stays asserts that a converged machine has nothing to do: a dry run plans nothing, and
// neither a run nor a restarted agent changes anything.
func (m *machine) stays() {
	m.W.T.Helper()
	m.Ready()
	before := m.picture()
	if out := m.Run("nodehitch-agent", "apply", "--filename", sitetest.LastKnownGood, "--dry-run"); !strings.Contains(out, "nothing would be done") {
		m.W.T.Errorf("%s: a dry run on a converged machine:\n%s", m.Name(), out)
	}
	was, err := m.status()
	if err != nil {
		m.W.T.Fatal(err)
	}
	m.SecondPass()
	m.converges(was.StartedAt)
	if after := m.picture(); after != before {
		m.W.T.Errorf("%s: a second run has changed something:\n%s", m.Name(), difference(before, after))
	}
}

// converges waits until an agent that was started after another one is ready by the
// controller's document.
func (m *machine) converges(before time.Time) {
	m.W.T.Helper()
	m.W.Until(m.Name()+": the agent converges after its start", func() error {
		s, err := m.status()
		if err != nil {
			return err
		}
		ready := s.Node.Condition(api.ConditionReady)
		if !s.StartedAt.After(before) || s.StoppedAt != nil || s.Origin != status.FromController || ready == nil || ready.Status != api.ConditionTrue {
			return errNotYet(s.Summary())
		}
		return nil
	})
}

type errNotYet string

func (e errNotYet) Error() string { return "not yet: " + string(e) }

// difference is the lines that are in one of the two only.
func difference(before, after string) string {
	in := map[string]int{}
	for _, line := range strings.Split(before, "\n") {
		in[line]--
	}
	for _, line := range strings.Split(after, "\n") {
		in[line]++
	}
	var b strings.Builder
	for line, n := range in {
		if n < 0 {
			b.WriteString("- " + line + "\n")
		} else if n > 0 {
			b.WriteString("+ " + line + "\n")
		}
	}
	return b.String()
}
