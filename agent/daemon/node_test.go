package daemon_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/connection/heatsignal"
	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/metadata"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/daemon"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	server = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	token  = "0b1a5c2e-0000-4000-8000-000000000001.c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a machine with an agent on it.
type node struct {
	t    *testing.T
	root string // of its files
	cfg  config.Config
	work *work
	// cluster, if set, is what a second step makes that changes more than the node.
	cluster *work
	logs    *strings.Builder
	// heatURL, if set, is where a stack waits for the machine.
	heatURL string
	// metadata, if set, is the machine's metadata service.
	metadata *metadata.Service

	mu       sync.Mutex
	notified []string
	links    []*link.Link
	linked   func() // called with the first link
	applied  []int64
}

func newNode(t *testing.T, c *controller) *node {
	t.Helper()
	n := &node{t: t, root: t.TempDir(), work: &work{}, logs: &strings.Builder{}}
	n.is(server)
	n.cfg = config.Config{
		ControllerURLs: []string{c.server.URL}, RootCertificate: string(c.root.PEM()), Pin: c.pin(),
		JoinToken: token, StateDirectory: filepath.Join(n.root, "var/lib/nodehitch/agent"),
	}
	return n
}

// is makes cloud-init say that the machine is this server.
func (n *node) is(id string) {
	n.t.Helper()
	path := filepath.Join(n.root, "run/cloud-init/instance-data.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"v1":{"instance_id":"`+id+`"}}`), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) statusFile() string { return filepath.Join(n.root, "run/nodehitch/agent-status.json") }

func (n *node) lockFile() string { return filepath.Join(n.root, "run/nodehitch/agent.lock") }

func (n *node) state() *state.Directory {
	d, err := state.Open(n.cfg.StateDirectory)
	if err != nil {
		n.t.Fatal(err)
	}
	return d
}

// start runs the agent until the returned function is called, which returns what
// Run returned.
func (n *node) start() (stop func() error) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	d := daemon.New(daemon.Options{
		Config: &n.cfg, State: n.state(), Machine: identity.At(n.root, "http://127.0.0.1:9/"), Metadata: n.metadata,
		Engine:     func(string) *converge.Engine { return converge.New(n.steps()...) },
		StatusFile: n.statusFile(), LockFile: n.lockFile(), Notify: n.notify, OnLink: n.onLink,
		OnApplied: func(doc *api.NodeConfig) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.applied = append(n.applied, doc.Generation)
		},
		Log: slog.New(slog.NewTextHandler(&locked{n}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if n.heatURL != "" {
		d.Heat = heatsignal.New(heatsignal.Where{URL: n.heatURL, Token: "hunter2"}, n.state(), d.Log)
	}
	go func() { done <- d.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-done
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range n.links {
			l.Close()
		}
		return err
	}
	n.t.Cleanup(func() {
		if err := stop(); err != nil {
			n.t.Errorf("the agent ended with %v", err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if text := n.logs.String(); strings.Contains(text, token) || strings.Contains(text, "PRIVATE") {
			n.t.Errorf("a secret is in the log:\n%s", text)
		}
		if n.t.Failed() {
			n.t.Log(n.logs.String())
		}
	})
	return stop
}

func (n *node) steps() []converge.Step {
	if n.cluster == nil {
		return []converge.Step{n.work}
	}
	return []converge.Step{n.work, cluster{n.cluster}}
}

func (n *node) notify(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notified = append(n.notified, state)
}

func (n *node) onLink(l *link.Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, l)
	if n.linked != nil && len(n.links) == 1 {
		n.linked()
	}
}

func (n *node) told(state string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.notified, func(s string) bool { return strings.HasPrefix(s, state) })
}

// status is what the status file says.
func (n *node) status() *status.Status {
	s, _ := status.Load(n.statusFile())
	return &s
}

// ready says whether the controller has heard that the node is Ready, and the node itself says
// so, which it does after it has told the controller.
func (n *node) ready(c *controller, generation int64) func() bool {
	converged := func(s *api.NodeStatus) bool {
		ready := s.Condition(api.ConditionReady)
		return ready != nil && ready.Status == api.ConditionTrue && s.AppliedGeneration == generation && s.ObservedGeneration == generation
	}
	return func() bool {
		reported, own := c.last(), n.status()
		return converged(&reported) && own.Running() && own.Controller.Connected && converged(&own.Node)
	}
}

// locked lets the log be read while it is written.
type locked struct{ n *node }

// logText is the log so far.
func (n *node) logText() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logs.String()
}

func (l *locked) Write(p []byte) (int, error) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	return l.n.logs.Write(p)
}

// until waits for something that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("it never came to: %s", what)
		case <-tick.C:
		}
	}
}

// work is a step that makes the machine have the document's generation.
type work struct {
	mu   sync.Mutex
	has  int64
	made []int64
	wait bool  // the device is not there
	fail int64 // the generation that fails after a part of it
	// busy, when set, is closed when an action begins, which ends with release.
	busy, release chan struct{}
}

func (*work) Condition() string { return api.ConditionVolumesMounted }

func (w *work) Plan(_ context.Context, doc *api.NodeConfig) (converge.Plan, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wait {
		return converge.Plan{}, converge.Wait(api.ReasonWaitingForDevice, "no disk")
	}
	if w.has == doc.Generation && w.fail == w.has {
		return converge.Plan{}, converge.Fail(api.ReasonForeignData, "the other disk is not blank")
	}
	if w.has == doc.Generation {
		return converge.Plan{Reason: api.ReasonMounted}, nil
	}
	return converge.Plan{Actions: []converge.Action{{Summary: "make it", Do: func(context.Context) error {
		w.mu.Lock()
		busy, release := w.busy, w.release
		w.mu.Unlock()
		if busy != nil {
			close(busy)
			<-release
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy, w.has, w.made = nil, doc.Generation, append(w.made, doc.Generation)
		return nil
	}}}}, nil
}

func (w *work) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *work) is() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has
}

// cluster is work beyond the node.
type cluster struct{ *work }

func (cluster) Condition() string { return "PersistentVolumesRegistered" }

func (cluster) ClusterScoped() {}
