package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/supervisor"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/version"
)

const suite = "upgrade"

// world is a controller that wants the build in its agentDirectory, and an instance of
// workers.
type world struct {
	*loopback.Controller
	t        *testing.T
	instance string
	servers  []string
	// agents is the agentDirectory, whose build has the controller's version.
	agents  string
	started int
	// old is another build of the agent, which works.
	old string
}

func newWorld(t *testing.T, workers int) *world {
	t.Helper()
	w := worldOf(t, workers, loopback.Options{Settings: map[string]string{"log": "{level: debug}", "agentUpgrade": "{maxUnavailable: 100%}"}})
	w.old = filepath.Join(t.TempDir(), "nodehitch-agent")
	content := built(t)
	v := versionOf(t, content)
	write(t, w.old, bytes.ReplaceAll(content, stamp(v), stamp(other(v))))
	return w
}

func worldOf(t *testing.T, workers int, o loopback.Options) *world {
	t.Helper()
	loopback.RequireRoot(t)
	w := &world{t: t, instance: uuid.NewString(), agents: t.TempDir()}
	o.Settings["agentDirectory"] = w.agents
	w.Controller = loopback.Open(t, o)
	role := func(cp string) map[string]any { return map[string]any{"ssh_cp_name": cp, "nic_cp_name": cp} }
	master := role("master_CP")
	master["cluster_cp_name"] = "master_CP"
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE"}
	for i := range workers {
		w.servers = append(w.servers, uuid.NewString())
		topology.Servers = append(topology.Servers, api.Server{ID: w.servers[i], Name: fmt.Sprintf("worker-%d", i),
			ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{fmt.Sprintf("10.10.1.%d", i+1)}}}})
	}
	w.PutParams(w.instance, map[string]any{"k8s_cluster_installation_param": map[string]any{
		"script_path": "Scripts/install.sh", "master_node": master, "worker_node": role("worker_CP"),
	}}, topology)
	return w
}

// built is the agent that `make build` has made, and its controller's version.
func built(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(loopback.Bin(t), "nodehitch-agent-amd64"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func versionOf(t *testing.T, program []byte) string {
	t.Helper()
	v, err := version.Of(bytes.NewReader(program))
	if err != nil || v == "" {
		t.Fatalf("the agent in bin does not say its version (%v): run `make build`", err)
	}
	return v
}

// stamp is how a version stands in a program.
func stamp(v string) []byte { return []byte("nodehitch-version<" + v + ">") }

// other is another version that is as long.
func other(v string) string {
	last := "x"
	if strings.HasSuffix(v, last) {
		last = "y"
	}
	return v[:len(v)-1] + last
}

func write(t *testing.T, path string, program []byte) {
	t.Helper()
	fresh := path + ".new"
	if err := errors.Join(os.WriteFile(fresh, program, 0o755), os.Rename(fresh, path)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// want makes the controller want a build, of its own version; nil makes it want none.
func (w *world) want(program []byte) {
	w.t.Helper()
	if program == nil {
		if err := os.Remove(filepath.Join(w.agents, "nodehitch-agent-amd64")); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	write(w.t, filepath.Join(w.agents, "nodehitch-agent-amd64"), program)
	if _, err := client.Read[api.AgentRollout](w.API.UpgradeAgents(w.t.Context(), api.AgentUpgradeRequest{})); err != nil {
		w.t.Fatal(err)
	}
}

// badBuild is a build of this version that does not work.
func badBuild(t *testing.T, fault, version string) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "badagent")
	compile(t, program, "./badagent", version, "-X main.fault="+fault)
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// compile builds a program of a version.
func compile(t *testing.T, to, folder, version string, more ...string) {
	t.Helper()
	flags := append([]string{"-s -w -X github.com/nodehitch/nodehitch/shared/version.stamp=" + string(stamp(version))}, more...)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", strings.Join(flags, " "), "-o", to, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// start starts the agent of a server, of the old build.
func (w *world) start(i int, o supervisor.Options) *supervisor.Supervisor {
	w.t.Helper()
	o.Agent = loopback.AgentOptions{Binary: w.old, ServerID: w.servers[i], Config: w.AgentConfig(w.instance)}
	o.Restart = 100 * time.Millisecond
	w.started++
	return supervisor.Start(w.t, o)
}

// upgrade is what the node has reported of its upgrade.
func (w *world) upgrade(i int) api.AgentUpgrade {
	n := w.Node(w.servers[i])
	if n.Status == nil || n.Status.AgentUpgrade == nil {
		return api.AgentUpgrade{}
	}
	return *n.Status.AgentUpgrade
}

// runs waits until the node is Ready by an agent of the version, with the reason.
func (w *world) runs(i int, version, reason string) api.AgentUpgrade {
	w.t.Helper()
	loopback.Until(w.t, fmt.Sprintf("node %d is Ready by %s, %s", i, version, reason), func() bool {
		n := w.Node(w.servers[i])
		return n.Ready && n.Status.Facts.AgentVersion == version && w.upgrade(i).Reason == reason
	})
	return w.upgrade(i)
}

// kept is what an upgrade must not change: the identity and the journal.
type kept map[string]string

var keptFiles = []string{"identity.pem", "machine.json", filepath.Join("journal", journalRecord)}

// journalRecord is a volume's that was formatted.
const journalRecord = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f.json"

// keep waits until the agent has enrolled, gives it a journal, and reads all that must not
// change.
func (w *world) keep(i int, s *supervisor.Supervisor) kept {
	w.t.Helper()
	w.runs(i, other(versionOf(w.t, built(w.t))), api.UpgradeUpToDate)
	return w.withJournal(i, s)
}

// withJournal gives an agent a journal and reads all that must not change.
func (w *world) withJournal(i int, s *supervisor.Supervisor) kept {
	w.t.Helper()
	record, err := json.Marshal(map[string]any{"volumeId": strings.TrimSuffix(journalRecord, ".json"), "phase": "reported", "permit": "p", "nodeId": w.servers[i],
		"device": "/dev/vdb", "sizeBytes": 1 << 30, "filesystemUuid": uuid.NewString(), "changedAt": time.Now()})
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(s.State(), "journal"), 0o700), os.WriteFile(filepath.Join(s.State(), keptFiles[2]), record, 0o600))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.read(s)
}

func (w *world) read(s *supervisor.Supervisor) kept {
	w.t.Helper()
	k := kept{}
	for _, name := range keptFiles {
		content, err := os.ReadFile(filepath.Join(s.State(), name))
		if err != nil {
			w.t.Fatal(err)
		}
		k[name] = string(content)
	}
	return k
}

// unchanged fails the test if anything of it has changed, and if a record or a copy is left.
func (w *world) unchanged(s *supervisor.Supervisor, before kept, left ...string) {
	w.t.Helper()
	for name, content := range w.read(s) {
		if content != before[name] {
			w.t.Errorf("%s has changed", name)
		}
	}
	found, _ := filepath.Glob(filepath.Join(s.State(), "upgrade*"))
	var names []string
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	if strings.Join(names, " ") != strings.Join(left, " ") {
		w.t.Errorf("in the state are %q, expected %q", names, left)
	}
	if n := w.Logged("result=enrolled") + w.Logged("result=reissued"); n != w.started {
		w.t.Errorf("%d enrollments of %d servers", n, w.started)
	}
}
