package registries

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

// lastKnownGood is the document that the agent has applied.
const lastKnownGood = "/var/lib/nodehitch/agent/last-known-good.json"

// picture is what a second run must leave as it is: every file of the machine's
// configuration and of the agent's making with the time of its last change, the
// engines' processes with the time of their last start or reload, and the containers.
func (m *machine) picture() string {
	m.w.t.Helper()
	return m.run("sh", "-c", `
		find /etc /root /home /var/lib/kubelet /var/lib/nodehitch/agent/files -path '*/docker/registry/*' -prune -o \
			-printf '%p %y %m %s %C@\n' 2>/dev/null | sort
		systemctl show --property=Id,MainPID,ActiveState,StateChangeTimestampMonotonic docker containerd
		docker ps --all --quiet --no-trunc | sort | xargs -r docker inspect --format '{{.Name}} {{.Id}} {{.State.StartedAt}} {{.RestartCount}}'`)
}

// stays asserts that a converged machine has nothing to do: a dry run plans nothing, and
// neither a run nor a restarted agent changes anything.
func (m *machine) stays() {
	m.w.t.Helper()
	m.ready()
	before := m.picture()
	if out := m.run("nodehitch-agent", "apply", "--filename", lastKnownGood, "--dry-run"); !strings.Contains(out, "nothing would be done") {
		m.w.t.Errorf("%s: a dry run on a converged machine:\n%s", m.Name(), out)
	}
	was, err := m.status()
	if err != nil {
		m.w.t.Fatal(err)
	}
	m.run("systemctl", "stop", "nodehitch-agent")
	out, err := m.try("nodehitch-agent", "apply", "--filename", lastKnownGood, "--output", "json")
	if err != nil {
		m.w.t.Errorf("%s: a second run: %v", m.Name(), err)
	}
	var second struct {
		Converged bool
		Steps     []struct{ Planned []string }
		Changes   map[string]int64
	}
	if err := json.Unmarshal([]byte(out), &second); err != nil {
		m.w.t.Fatal(err)
	}
	if !second.Converged || len(second.Steps) == 0 || len(second.Changes) == 0 {
		m.w.t.Errorf("%s: a second run: %s", m.Name(), out)
	}
	for _, step := range second.Steps {
		if len(step.Planned) > 0 {
			m.w.t.Errorf("%s: a second run plans %q", m.Name(), step.Planned)
		}
	}
	for what, n := range second.Changes {
		if n != 0 {
			m.w.t.Errorf("%s: a second run changes %d %s", m.Name(), n, what)
		}
	}
	m.run("systemctl", "start", "nodehitch-agent")
	m.converges(was.StartedAt)
	if after := m.picture(); after != before {
		m.w.t.Errorf("%s: a second run has changed something:\n%s", m.Name(), difference(before, after))
	}
}

// converges waits until an agent that was started after another one is ready by the
// controller's document.
func (m *machine) converges(before time.Time) {
	m.w.t.Helper()
	m.w.until(m.Name()+": the agent converges after its start", func() error {
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
