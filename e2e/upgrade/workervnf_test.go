package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/supervisor"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/version"
)

const suite = "upgrade"

// workerVNF is a controller that wants the build in its agentDirectory, and an instance of
// workers.
type workerVNF struct {
	*loopback.Controller
	t        *testing.T
	instance string
	servers  []string
	// carried is the agentDirectory, whose build has the controller's version.
	carried string
	started int
	// old is another build of the agent, which works.
	old string
}

func newWorkerVNF(t *testing.T, workers int) *workerVNF {
	t.Helper()
	w := workerVNFOf(t, workers, loopback.Options{Settings: map[string]string{"log": "{level: debug}", "agentUpgrade": "{maxUnavailable: 100%}"}})
	w.old = filepath.Join(t.TempDir(), "nodehitch-agent")
	content := built(t)
	v := versionOf(t, content)
	build.Put(t, w.old, build.Of(t, content, v, other(v)))
	return w
}

func workerVNFOf(t *testing.T, workers int, o loopback.Options) *workerVNF {
	t.Helper()
	loopback.RequireRoot(t)
	w := &workerVNF{t: t, instance: uuid.NewString(), carried: t.TempDir()}
	o.Settings["agentDirectory"] = w.carried
	w.Controller = loopback.Open(t, o)
	for range workers {
		w.servers = append(w.servers, uuid.NewString())
	}
	w.PutParams(w.instance, loopback.ClusterParams(""), loopback.Workers(func(_, i int) string { return w.servers[i] }, 0, workers))
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

// other is another version that is as long.
func other(v string) string {
	last := "x"
	if strings.HasSuffix(v, last) {
		last = "y"
	}
	return v[:len(v)-1] + last
}

// want makes the controller want a build, of its own version; nil makes it want none.
func (w *workerVNF) want(program []byte) {
	w.t.Helper()
	if program == nil {
		if err := os.Remove(filepath.Join(w.carried, "nodehitch-agent-amd64")); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	build.Put(w.t, filepath.Join(w.carried, "nodehitch-agent-amd64"), program)
	if _, err := client.Read[api.AgentRollout](w.API.UpgradeAgents(w.t.Context(), api.AgentUpgradeRequest{})); err != nil {
		w.t.Fatal(err)
	}
}

// badBuild is a build of this version that does not work.
func badBuild(t *testing.T, fault, version string) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "badagent")
	build.Compile(t, program, "./badagent", version, "-X main.fault="+fault)
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// start starts the agent of a server, of the old build.
func (w *workerVNF) start(i int, o supervisor.Options) *supervisor.Supervisor {
	w.t.Helper()
	o.Agent = loopback.AgentOptions{Binary: w.old, ServerID: w.servers[i], Config: w.AgentConfig(w.instance)}
	o.Restart = 100 * time.Millisecond
	w.started++
	return supervisor.Start(w.t, o)
}

// upgrade is what the node has reported of its upgrade.
func (w *workerVNF) upgrade(i int) api.AgentUpgrade {
	n := w.Node(w.servers[i])
	if n.Status == nil || n.Status.AgentUpgrade == nil {
		return api.AgentUpgrade{}
	}
	return *n.Status.AgentUpgrade
}

// runs waits until the node is Ready by an agent of the version, with the reason.
func (w *workerVNF) runs(i int, version, reason string) api.AgentUpgrade {
	w.t.Helper()
	loopback.Until(w.t, fmt.Sprintf("node %d is Ready by %s, %s", i, version, reason), func() bool {
		n := w.Node(w.servers[i])
		return n.Ready && n.Status.Facts.AgentVersion == version && w.upgrade(i).Reason == reason
	})
	return w.upgrade(i)
}

// agent is one whose files a test reads, whatever starts it.
type agent interface {
	// String says which one it is.
	String() string
	// Read reads a file of its state directory; fs.ErrNotExist if there is none.
	Read(name string) ([]byte, error)
	// Write writes such a file, and makes its folder.
	Write(name string, content []byte) error
	// Running is the version that its status has.
	Running() string
	// Logged is all that it has logged.
	Logged() ([]byte, error)
}

// process is an agent under a supervisor.
type process struct{ *supervisor.Supervisor }

func (p process) String() string { return p.Dir }
func (p process) Read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(p.State(), name))
}
func (p process) Running() string         { return p.Status().AgentVersion }
func (p process) Logged() ([]byte, error) { return p.Log(), nil }

func (p process) Write(name string, content []byte) error {
	path := filepath.Join(p.State(), name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
}

// kept is what an upgrade must not change: the identity and the journal.
type kept map[string]string

var keptFiles = []string{"identity.pem", "machine.json", filepath.Join("journal", journalRecord)}

// journalRecord is a volume's that was formatted.
const journalRecord = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f.json"

// keep waits until the agent has enrolled, gives it a journal, and reads all that must not
// change.
func (w *workerVNF) keep(i int, s *supervisor.Supervisor) kept {
	w.t.Helper()
	w.runs(i, other(versionOf(w.t, built(w.t))), api.UpgradeUpToDate)
	return w.withJournal(i, process{s})
}

// withJournal gives an agent a journal and reads all that must not change.
func (w *workerVNF) withJournal(i int, a agent) kept {
	w.t.Helper()
	record, err := json.Marshal(map[string]any{"volumeId": strings.TrimSuffix(journalRecord, ".json"), "phase": "reported", "permit": "p", "nodeId": w.servers[i],
		"device": "/dev/vdb", "sizeBytes": 1 << 30, "filesystemUuid": uuid.NewString(), "changedAt": time.Now()})
	if err == nil {
		err = a.Write(keptFiles[2], record)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.read(a)
}

func (w *workerVNF) read(a agent) kept {
	w.t.Helper()
	k := kept{}
	for _, name := range keptFiles {
		content, err := a.Read(name)
		if err != nil {
			w.t.Fatal(err)
		}
		k[name] = string(content)
	}
	return k
}

// unchanged fails the test if anything of it has changed, and if a record or a copy is left.
func (w *workerVNF) unchanged(s *supervisor.Supervisor, before kept, left ...string) {
	w.t.Helper()
	for name, content := range w.read(process{s}) {
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
