package peers

import (
	"embed"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	suite = "peers"
	bin   = "../../bin"
)

// policies are the peers' policies. If one compares a file with another, the other is
// nodehitch's file, copied beside the policy.
//
//go:embed policy
var policies embed.FS

// folder is where they lie on a machine.
const folder = "/root/policy"

// machine is a node on which contestants are measured.
type machine struct {
	lab.Node
	t    *testing.T
	role string // which policies
}

// instance is a cluster of a storage server and a worker. One of them is measured.
func instance(t *testing.T, l *lab.Lab) (site.Storage, api.Server) {
	t.Helper()
	disk, err := l.NewDisk(uuid.NewString(), 256<<20)
	if err != nil {
		t.Fatal(err)
	}
	worker := server(workerAddress)
	return site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage", VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: "/volume", SizeBytes: 256 << 20}},
		Exports:  []string{"/volume/nfs/pv1", "/volume/nfs/pv2", "/volume/nfs/pv3"},
		Others:   []api.Server{worker},
	}, worker
}

// server is a worker's.
func server(address netip.Addr) api.Server {
	return api.Server{
		ID: uuid.NewString(), Name: "worker",
		ConnectionPoints: []api.ConnectionPoint{{Name: "workerNode_CP2", Addresses: []string{address.String()}}},
	}
}

// converged waits until the machine is Ready, and stops the agent: contestants run alone.
func (m *machine) converged(s *site.Site) {
	m.t.Helper()
	if _, err := s.Hitchctl(m.t.Context(), "wait", "node", m.ServerID(), "--for", "Ready", "--timeout", "5m"); err != nil {
		out, _ := m.Exec(m.t.Context(), "journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60", "-o", "cat")
		m.t.Fatalf("%v\n%s", err, out)
	}
	m.do("systemctl", "stop", "nodehitch-agent")
}

// do runs a program that has to succeed.
func (m *machine) do(argv ...string) string {
	m.t.Helper()
	out, err := m.Exec(m.t.Context(), argv...)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// installPeers installs the peers, and gives each its policy.
func (m *machine) installPeers(l *lab.Lab, r *results.Case, values *strings.Replacer) {
	m.t.Helper()
	if err := l.InstallPackages(m.t.Context(), m, "peers", debs...); err != nil {
		m.t.Fatal(err)
	}
	for _, c := range theirs {
		name := m.role + c.policy
		text, err := policies.ReadFile(filepath.Join("policy", name))
		if err != nil {
			m.t.Fatal(err)
		}
		// cf-agent reads no policy that others could have written.
		if err := m.Push(m.t.Context(), filepath.Join(folder, name), 0o600, []byte(values.Replace(string(text)))); err != nil {
			m.t.Fatal(err)
		}
	}
	for _, c := range append([]contestant{ours}, theirs...) {
		r.Figure("version of "+c.name, "%s", m.do(c.version...))
	}
}

func (m *machine) command(c contestant) []string {
	return c.apply(filepath.Join(folder, m.role+c.policy))
}

// once runs a contestant and says how much it has changed.
func (m *machine) once(c contestant) int {
	m.t.Helper()
	runs, err := measure(m.t.Context(), m, 1, map[string][]string{c.name: m.command(c)})
	if err != nil {
		m.t.Fatal(err)
	}
	return m.read(c, runs[c.name][0])
}

func (m *machine) read(c contestant, r run) int {
	m.t.Helper()
	n, err := c.changed(r)
	if err != nil {
		m.t.Fatalf("%s: %v; exit code %d:\n%s", c.name, err, r.Code, r.Output)
	}
	return n
}

// idle asserts that none of these finds anything to do.
func (m *machine) idle(when string, list ...contestant) {
	m.t.Helper()
	for _, c := range list {
		if n := m.once(c); n != 0 {
			m.t.Fatalf("%s: %s changed %d", when, c.name, n)
		}
	}
}

// repairRuns is in how many runs a contestant has to repair a drift: CFEngine reads the
// state before it acts, and sees only in the next run what its own repairs made possible.
const repairRuns = 3

// equal checks that all contestants ask the same of the machine: none finds anything to do
// after nodehitch has converged it, and nodehitch finds nothing after another has repaired
// the drift.
func (m *machine) equal(drift ...[]string) {
	m.t.Helper()
	all := append([]contestant{ours}, theirs...)
	m.idle("converged", all...)
	for _, c := range all {
		for _, away := range drift {
			m.do(away...)
		}
		repaired := m.once(c)
		if repaired == 0 {
			m.t.Fatalf("%s repaired nothing of %q", c.name, drift)
		}
		for runs := 1; runs < repairRuns && repaired > 0; runs++ {
			repaired = m.once(c)
		}
		m.idle("repaired by "+c.name, ours)
		m.t.Logf("%s has repaired the drift", c.name)
	}
	m.idle("repaired by the last", all...)
}
