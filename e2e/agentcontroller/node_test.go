package agentcontroller

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/permit"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/daemon"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

// node is a machine with the real agent, whose steps change nothing.
type node struct {
	t       *testing.T
	root    string
	id      string
	cfg     config.Config
	permits *permit.Controller
	files   *files.Store

	mu   sync.Mutex
	docs []api.NodeConfig // that were converged
	gone bool             // the disk is away
	used bool             // the disk holds data of others
	logs safeBuffer
}

func newNode(t *testing.T, c controller) *node { return nodeOf(t, c, instance, server) }

// nodeOf is the machine of a server of an instance.
func nodeOf(t *testing.T, c controller, instance, server string) *node {
	t.Helper()
	n := &node{t: t, root: t.TempDir(), id: server, permits: new(permit.Controller)}
	trust := c.Trust()
	n.cfg = config.Config{ControllerURLs: trust.Urls, RootCertificate: trust.RootCertificate, Pin: trust.Pin,
		JoinToken: c.JoinToken(instance), StateDirectory: filepath.Join(n.root, "state")}
	n.files = files.New(n.cfg.StateDirectory, slog.New(slog.NewTextHandler(&n.logs, nil)))
	path := filepath.Join(n.root, "run/cloud-init/instance-data.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"v1":{"instance_id":"`+server+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) start() (stop func()) {
	n.t.Helper()
	directory, err := state.Open(n.cfg.StateDirectory)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := daemon.New(daemon.Options{
		Config: &n.cfg, State: directory, Machine: identity.At(n.root, "http://127.0.0.1:9/"), OnLink: func(l *link.Link) { n.permits.Use(l); n.files.Use(l) },
		Engine: func(string) *converge.Engine {
			return converge.New(pretend{n, api.ConditionVolumesMounted}, pretend{n, api.ConditionExportsServed},
				fetching{n, api.ConditionRegistryRunning}, fetching{n, api.ConditionRegistriesConnected})
		},
		StatusFile: n.statusFile(), LockFile: filepath.Join(n.root, "lock"), Notify: func(string) {},
		Log: slog.New(slog.NewTextHandler(&n.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				n.t.Errorf("the agent ended with %v", err)
			}
		})
	}
	n.t.Cleanup(func() {
		stop()
		if n.t.Failed() {
			n.t.Logf("the agent's log:\n%s", n.logs.String())
		}
	})
	return stop
}

func (n *node) statusFile() string { return filepath.Join(n.root, "status.json") }

func (n *node) status() *status.Status {
	s, _ := status.Load(n.statusFile())
	return &s
}

// last is the document that was converged last.
func (n *node) last() api.NodeConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.docs) == 0 {
		return api.NodeConfig{}
	}
	return n.docs[len(n.docs)-1]
}

func (n *node) unplug(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = away
}

// fill puts data of others on the disk, or takes it away.
func (n *node) fill(used bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used = used
}

// passes is how often the agent has planned.
func (n *node) passes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.docs)
}

// pretend is a storage step on a machine that is always converged, unless its
// disk is away or holds data of others.
type pretend struct {
	n         *node
	condition string
}

func (p pretend) Condition() string { return p.condition }

func (p pretend) Plan(_ context.Context, doc *api.NodeConfig) (converge.Plan, error) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.n.docs = append(p.n.docs, *doc)
	switch {
	case doc.Storage == nil:
		return converge.Plan{HandsOff: true}, nil
	case len(doc.Storage.Volumes) == 0:
		return converge.Plan{Reason: api.ReasonRemoved}, nil
	case p.n.gone:
		return converge.Plan{}, converge.Wait(api.ReasonWaitingForDevice, "no disk")
	case p.n.used && p.condition == api.ConditionVolumesMounted:
		return converge.Plan{}, converge.Fail(api.ReasonForeignData, "found xfs")
	case p.n.used:
		return converge.Plan{}, converge.Wait(api.ReasonNotMounted, "the volume is not mounted")
	case p.condition == api.ConditionExportsServed:
		return converge.Plan{Reason: api.ReasonServed}, nil
	}
	return converge.Plan{Reason: api.ReasonMounted}, nil
}

// fetching is a step of registries that is done when it has the files.
type fetching struct {
	n         *node
	condition string
}

func (f fetching) Condition() string { return f.condition }

func (f fetching) Plan(ctx context.Context, doc *api.NodeConfig) (converge.Plan, error) {
	if !slices.Contains(doc.ConditionTypes(), f.condition) {
		return converge.Plan{HandsOff: true}, nil
	}
	for _, file := range doc.Files() {
		if err := f.n.files.Fetch(ctx, file); err != nil {
			return converge.Plan{}, err
		}
	}
	return converge.Plan{Reason: api.ReasonRunning}, nil
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
