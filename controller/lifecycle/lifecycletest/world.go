// Package lifecycletest is the world of the tests of the life cycle: a controller without its
// listener, whose only instance gets requests as the API and the hooks send them, and
// whose machines enroll and report as agents do. It is never linked into a binary.
package lifecycletest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// InstanceID is the instance that each world is about.
const InstanceID = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"

// PollInterval is how often agents poll at least.
const PollInterval = 30 * time.Second

// ShortestPause and LongestPause are between two observations of a stack for servers
// that call.
const (
	ShortestPause = 10 * time.Second
	LongestPause  = 5 * time.Minute
)

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// World is a controller without its listener, in a test that can be one of rapid's.
type World struct {
	failer
	*controllertest.Controller
	// Ctx is the test's.
	Ctx context.Context
	// Retention is how much of the past is kept, if it is not what a controller keeps.
	Retention tx.Retention
	// SharedCommit names the last commit of a store that is shared.
	SharedCommit func() string
	// remote is the address of the next machine that enrolls.
	remote netip.Addr
}

// T is a test: *testing.T and *testing.B are, and rapid.T with a directory and a context.
type T interface {
	failer
	controllertest.T
	Context() context.Context
}

// New is a world without an instance. With shared, its store is in the database that this
// opens.
func New(t T, shared ...func() *store.Shared) *World {
	t.Helper()
	o := controllertest.Options{Discovers: true}
	if len(shared) > 0 {
		o.Shared = shared[0]
	}
	w := &World{failer: t, Controller: controllertest.New(t, o), Ctx: t.Context(), remote: netip.MustParseAddr("10.0.0.1")}
	w.opened()
	return w
}

// opened fails the test if a change of a volume cannot be followed.
func (w *World) opened() {
	w.Permits.Changed = func(instanceID string) { w.Must(w.Lifecycle.Reconciler.Reconcile(w.Ctx, instanceID)) }
	if w.Retention != (tx.Retention{}) {
		w.Lifecycle.Reconciler.Runner.Keep = w.Retention
	}
}

// Keep makes the controller keep so much of the past from now on.
func (w *World) Keep(keep tx.Retention) {
	w.Retention = keep
	w.opened()
}

// Restore is a restore of the state as it is, which begins another life of it.
func (w *World) Restore() {
	w.Helper()
	_, err := w.Store.BeginEpoch(store.NewEpoch{From: store.Origin{TakenAt: w.Clock.Now(), RestoredAt: w.Clock.Now()}})
	w.Must(err)
	w.Restart()
}

// Restart is a kill and a new start.
func (w *World) Restart() {
	w.Helper()
	w.Open()
	w.opened()
	w.Must(w.Lifecycle.Start(w.Ctx))
}

// Must ends the test if err is not nil.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v", err)
	}
}

// Writes reports whether a transaction was committed while fn ran.
func (w *World) Writes(fn func()) bool {
	w.Helper()
	before := w.LastCommit()
	fn()
	return before != w.LastCommit()
}

// LastCommit differs after a commit.
func (w *World) LastCommit() string {
	w.Helper()
	if w.SharedCommit != nil {
		return w.SharedCommit()
	}
	return w.Commits()
}

// Upload is an upload of a package file.
func (w *World) Upload(path, content string) {
	w.Helper()
	w.Arrive(path, content)
	w.Must(w.Lifecycle.Instances.FileStored(w.Ctx, InstanceID, path))
}

// Arrive is an upload that the life cycle does not know yet.
func (w *World) Arrive(path, content string) {
	w.Helper()
	_, err := w.Files.Put(w.Ctx, files.Request{InstanceID: InstanceID, Path: path, Body: strings.NewReader(content), ContentLength: int64(len(content))})
	w.Must(err)
}

// Put is a PUT of the instance.
func (w *World) Put(spec api.InstanceSpec) api.Instance {
	w.Helper()
	instance, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, InstanceID, spec)
	w.Must(err)
	return instance
}

// Node is the node as the API shows it.
func (w *World) Node(id string) api.Node {
	w.Helper()
	n, err := w.Lifecycle.Nodes.GetNode(w.Ctx, id)
	w.Must(err)
	return n
}

// WantRefused wants err to be a problem of this type that says these things.
func (w *World) WantRefused(err error, problemType string, says ...string) {
	w.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || p == nil || p.Type != problemType { // an operation's error may be a nil *api.Problem
		w.Fatalf("err %v, want the problem %s", err, problemType)
	}
	for _, part := range says {
		if !strings.Contains(p.Error()+" "+p.Commands(), part) {
			w.Errorf("the problem does not say %q:\n%v, %+v", part, p, p.Actions)
		}
	}
	if strings.Contains(p.Error(), "hitchctl") {
		w.Errorf("the problem is not in the words of the API: %v", p)
	}
}

// WantActions wants err to be a refusal with these actions and no others.
func (w *World) WantActions(err error, actions ...api.Action) {
	w.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || !slices.Equal(p.Actions, actions) {
		w.Errorf("%+v, want the actions %+v", p, actions)
	}
}

// Woken reports whether the wait is over.
func Woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Instance is the instance as the API shows it.
func (w *World) Instance() api.Instance {
	w.Helper()
	i, err := w.Lifecycle.Instances.GetInstance(w.Ctx, InstanceID)
	w.Must(err)
	return i
}

// Document is the document of a node.
func (w *World) Document(nodeID string) api.NodeConfig {
	w.Helper()
	config, digest, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, nodeID)
	w.Must(err)
	if digest != config.Digest() {
		w.Errorf("the digest of %s is %s, its document's %s", nodeID, digest, config.Digest())
	}
	return config
}

// WantFirst wants the first document of a node. What its sections hold is for those to look at
// who know them: a kind of state that is added changes no test of another.
func (w *World) WantFirst(c api.NodeConfig, role api.Role) {
	w.Helper()
	if c.APIVersion != api.NodeConfigV1 || c.Epoch != w.Store.Epoch() || c.Generation != 1 || c.Role != role {
		w.Errorf("a document of %s for %s, epoch %d, generation %d; want the first of this epoch, for %s", c.APIVersion, c.Role, c.Epoch, c.Generation, role)
	}
}

// HasFault reports whether a fault at the pointer says this.
func HasFault(warnings []api.Fault, pointer, part string) bool {
	for _, f := range warnings {
		if f.Pointer == pointer && strings.Contains(f.Message, part) {
			return true
		}
	}
	return false
}

// UUID is one of a family of ids.
func UUID(family, i int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", family, i) }
