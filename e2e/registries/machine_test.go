package registries

import (
	"encoding/json"
	"net/netip"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// machine also has a container engine.
type machine struct{ *sitetest.Machine }

// spec is a server with the instance's user_data. Its first address is one of the lab's own.
func (v *vnf) spec(s api.Server, engine lab.Engine, also ...netip.Prefix) lab.Spec {
	v.T.Helper()
	spec := sitetest.Spec(s, v.UserData())
	spec.Engine, spec.Also = engine, also
	return spec
}

// boot boots machines side by side.
func (v *vnf) boot(specs ...lab.Spec) (machines []*machine) {
	v.T.Helper()
	for _, m := range v.Boot(v.Lab.Nspawn, specs...) {
		v.T.Cleanup(func() {
			sitetest.Explain(v.T, m, []string{"journalctl", "-u", "docker", "-u", "containerd", "--no-pager", "-n", "20", "-o", "cat"})
		})
		machines = append(machines, &machine{m})
	}
	return machines
}

// write writes a file of the owner's.
func (m *machine) write(path, content string) {
	m.W.T.Helper()
	if err := m.Push(m.W.T.Context(), path, 0o644, []byte(content)); err != nil {
		m.W.T.Fatal(err)
	}
}

// read reads a file; one that is not there is empty.
func (m *machine) read(path string) string {
	content, err := m.Pull(m.W.T.Context(), path)
	if err != nil {
		return ""
	}
	return string(content)
}

// status is what the agent says on the machine.
func (m *machine) status() (*status.Status, error) {
	out, err := m.Try("nodehitch-agent", "status", "-o", "json")
	if err != nil {
		return nil, err
	}
	var s status.Status
	return &s, json.Unmarshal([]byte(out), &s)
}
