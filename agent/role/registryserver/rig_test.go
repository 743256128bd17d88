package registryserver_test

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/registryserver"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	state     = "/var/lib/nodehitch/agent"
	directory = "/home/ubuntu/registry"
	name      = "private_registry"
	imageID   = "sha256:1111"
	otherID   = "sha256:2222"

	running = "True Running"

	// inventory is what the trace has of a change of it.
	inventory = "write " + state + "/inventory.json"
)

// What archives contain.
const (
	archive      = "a saved registry:latest"
	otherArchive = "a saved registry:3"
	noRegistry   = "a saved nginx"
)

// rig is a machine, the files that the agent has, and the real engine over the real
// steps.
type rig struct {
	t      *testing.T
	m      *hosttest.Machine
	files  *files.Store
	doc    *api.NodeConfig
	engine *converge.Engine
}

// machine has these parts, and the archives as files of the agent.
func machine(t *testing.T, parts ...hosttest.Part) *rig {
	r := &rig{t: t, m: hosttest.New(parts...), files: files.New(t.TempDir(), slog.New(slog.DiscardHandler)), doc: document()}
	r.give(archive)
	r.restart()
	return r
}

// docker is a machine with an engine that knows the archives.
func docker(t *testing.T, parts ...hosttest.Part) *rig {
	return machine(t, append([]hosttest.Part{hosttest.Engine(known)}, parts...)...)
}

func known(e *hosttest.EngineState) {
	e.Archives[archive] = map[string]string{"registry:latest": imageID, "nginx:1": "sha256:9999"}
	e.Archives[otherArchive] = map[string]string{"registry:3": otherID}
	e.Archives[noRegistry] = map[string]string{"nginx:1": "sha256:9999", "example.com/registry/x:1": "sha256:8888"}
	e.Public["registry:latest"] = imageID
}

// restart is a new process of the agent on the same machine.
func (r *rig) restart() {
	r.engine = converge.New(append(
		storage.NewSteps(storage.Options{Host: r.m.Host(), NodeID: "n", StateDirectory: state}),
		registryserver.NewStep(registryserver.Options{Host: r.m.Host(), Files: r.files, StateDirectory: state}))...)
}

func document() *api.NodeConfig {
	ref := refOf(archive)
	return &api.NodeConfig{
		APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleRegistry,
		Registry: &api.RegistrySection{Image: api.RegistryImage{File: &ref}, Port: 5000, DataDirectory: directory},
	}
}

func refOf(content string) api.FileReference {
	sum := sha256.Sum256([]byte(content))
	return api.FileReference{Sha256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(content))}
}

// give is what fetching a file leads to.
func (r *rig) give(content string) {
	r.t.Helper()
	if err := os.MkdirAll(r.files.Directory, 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.files.Path(refOf(content)), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// imageFile asks for another image.
func (r *rig) imageFile(content string) {
	ref := refOf(content)
	r.doc.Registry.Image = api.RegistryImage{File: &ref}
}

func (r *rig) container() *hosttest.ContainerState {
	return r.m.Containers.Containers[name]
}

func (r *rig) converge() converge.Report {
	return r.engine.Converge(r.t.Context(), r.doc, converge.Options{})
}

// expect converges, compares the condition, and wants words in its message.
func (r *rig) expect(want string, words ...string) converge.Report {
	r.t.Helper()
	report := r.converge()
	c := report.Condition(api.ConditionRegistryRunning)
	if c == nil {
		r.t.Fatalf("RegistryRunning is not reported\ntrace: %s", strings.Join(r.m.Trace, "\n       "))
	}
	if got := string(c.Status) + " " + c.Reason; got != want {
		r.t.Errorf("got %s (%s), want %s\ntrace: %s", got, c.Message, want, strings.Join(r.m.Trace, "\n       "))
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			r.t.Errorf("the message %q does not have %q", c.Message, word)
		}
	}
	return report
}

// idle converges once more and wants nothing to be done.
func (r *rig) idle() {
	r.t.Helper()
	before := r.m.Changes()
	report := r.converge()
	if since := r.m.Changes().Since(before); report.Changed || !since.None() {
		r.t.Errorf("a converged machine was changed: %s\n%+v", since, report.Results)
	}
}

// runs wants the container to run of this image and port, alone, and the pass after to
// do nothing.
func (r *rig) runs(image string, port int) {
	r.t.Helper()
	c := r.container()
	if c == nil || c.Status != "running" || c.Image != image || c.Ports[0] != port || c.Restart != "always" {
		r.t.Fatalf("the container is %+v\ntrace: %s", c, strings.Join(r.m.Trace, "\n       "))
	}
	if next := r.m.Containers.Containers[name+"_next"]; next != nil {
		r.t.Errorf("and there is %+v beside it", next)
	}
	r.idle()
}

// done are the lines of the trace since it was last asked.
func (r *rig) done() []string {
	lines := r.m.Trace
	r.m.Trace = nil
	return lines
}
