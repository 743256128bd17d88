package upgrade

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestWavesUnderSystemd is TestWaves over machines: their systemd starts the agents, by the
// unit that the agent has installed. Only the time of the probation is another one.
func TestWavesUnderSystemd(t *testing.T) {
	const size, most, probation = 6, 2, "40s"
	c := results.Begin(t, suite, fmt.Sprintf("waves over %d machines with systemd", size), "good builds and bad ones, the controller away in the middle: never more than maxUnavailable nodes between two builds, all back, none enrolled again, no good build refused")
	results.LongOnly(t)
	l := labtest.Open(t, lab.KindNspawn)
	if err := l.BuildImages(t.Context(), lab.KindNspawn); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, size, most, loopback.Options{Settings: map[string]string{}, Address: lab.Gateway.String() + ":8443", Wrap: l.Command(t.Context()).Args})
	f.inFlight = func() (int, error) {
		r, err := client.Read[api.AgentRollout](f.API.GetAgents(t.Context(), nil))
		if err != nil {
			return 0, err
		}
		return len(r.InFlight), nil
	}
	build.Put(t, filepath.Join(f.carried, "nodehitch-agent-amd64"), f.program)
	userData := []byte(f.Must("render", "user-data", f.instance))
	for i, server := range f.servers {
		node, err := l.Nspawn(t.Context(), lab.Spec{Name: fmt.Sprintf("worker-%d", i), ServerID: server, UserData: userData, NFSClient: true})
		if err != nil {
			t.Fatal(err)
		}
		f.agents = append(f.agents, &machineAgent{t, node})
	}
	f.settled(ofAgents)
	for _, a := range f.agents {
		a.(*machineAgent).setProbation(probation)
	}
	f.through(c)
	for _, a := range f.agents {
		if left, err := a.(*machineAgent).do("ls", "-A", "/usr/local/bin"); err != nil || strings.Contains(left, ".nodehitch-agent.new") {
			t.Errorf("%s: a download is left: %s, %v", a, left, err)
		}
	}
}

// machineAgent is an agent on a machine of the lab.
type machineAgent struct {
	t    *testing.T
	node lab.Node
}

func (m *machineAgent) do(argv ...string) (string, error) {
	out, err := m.node.Exec(m.t.Context(), argv...)
	return string(out), err
}

// setProbation restarts the agent with another time for new builds, all else as in its unit.
func (m *machineAgent) setProbation(probation string) {
	m.t.Helper()
	dropIn := "[Service]\nExecStart=\nExecStart=" + agentOnMachine + " run --probation " + probation + "\n"
	err := m.node.Push(m.t.Context(), unitOnMachine+".d/probation.conf", 0o644, []byte(dropIn))
	if err == nil {
		_, err = m.do("systemctl", "daemon-reload")
	}
	if err == nil {
		_, err = m.do("systemctl", "restart", "nodehitch-agent")
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machineAgent) String() string { return m.node.Name() }

func (m *machineAgent) Read(name string) ([]byte, error) {
	path := filepath.Join(state.DefaultDirectory, name)
	text, err := m.do("sh", "-c", `cat "$1" 2>/dev/null || test ! -e "$1"`, "sh", path)
	if err == nil && text == "" {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text), err
}

func (m *machineAgent) Write(name string, content []byte) error {
	return m.node.Push(m.t.Context(), filepath.Join(state.DefaultDirectory, name), 0o600, content)
}

func (m *machineAgent) Running() string {
	text, err := m.do("cat", status.DefaultFile)
	var s status.Status
	if err != nil || json.Unmarshal([]byte(text), &s) != nil {
		return "" // it has none yet
	}
	return s.AgentVersion
}

func (m *machineAgent) Logged() ([]byte, error) {
	return m.node.Exec(m.t.Context(), "journalctl", "-u", "nodehitch-agent", "-o", "cat", "--no-pager")
}
