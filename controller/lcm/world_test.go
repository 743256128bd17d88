package lcm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/controllertest"
	"github.com/nodehitch/nodehitch/controller/files"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const instanceID = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"

// cadence is how often agents poll at least.
const cadence = 30 * time.Second

// shortestPause and longestPause are between two observations of a stack for servers
// that call.
const (
	shortestPause = 10 * time.Second
	longestPause  = 5 * time.Minute
)

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// world is a controller without its listener, in a test that can be one of rapid's.
type world struct {
	failer
	*controllertest.Controller
	ctx context.Context
	// keep is how much of the past is kept, if it is not what a controller keeps.
	keep tx.Retention
	// committed names the last commit of a store that is shared.
	committed func() string
	// remote is the address of the next machine that enrolls.
	remote netip.Addr
}

type tester interface {
	failer
	controllertest.T
	Context() context.Context
}

func newWorld(t tester, shared ...func() *store.Shared) *world {
	t.Helper()
	var o controllertest.Options
	if len(shared) > 0 {
		o.Shared = shared[0]
	}
	w := &world{failer: t, Controller: controllertest.New(t, o), ctx: t.Context(), remote: netip.MustParseAddr("10.0.0.1")}
	w.opened()
	return w
}

// opened lets servers call that no topology has, and fails the test if a change of a
// volume cannot be followed.
func (w *world) opened() {
	w.Enrollment.Discover = w.LCM.Discovery.Discover
	w.Permits.Changed = func(instanceID string) { w.must(w.LCM.Reconciler.Reconcile(w.ctx, instanceID)) }
	if w.keep != (tx.Retention{}) {
		w.LCM.Reconciler.Runner.Keep = w.keep
	}
}

// keeps makes the controller keep so much of the past from now on.
func (w *world) keeps(keep tx.Retention) {
	w.keep = keep
	w.opened()
}

// restored is a restore of the state as it is, which begins another life of it.
func (w *world) restored() {
	w.Helper()
	_, err := w.Store.BeginEpoch(store.NewEpoch{From: store.Origin{TakenAt: w.Clock.Now(), RestoredAt: w.Clock.Now()}})
	w.must(err)
	w.restart()
}

// restart is a kill and a new start.
func (w *world) restart() {
	w.Helper()
	w.Open()
	w.opened()
	w.must(w.LCM.Start(w.ctx))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v", err)
	}
}

// writes reports whether a transaction was committed while fn ran.
func (w *world) writes(fn func()) bool {
	w.Helper()
	before := w.commits()
	fn()
	return before != w.commits()
}

// commits differs after a commit.
func (w *world) commits() string {
	w.Helper()
	if w.committed != nil {
		return w.committed()
	}
	return w.Commits()
}

func (w *world) upload(path, content string) {
	w.Helper()
	w.arrive(path, content)
	w.must(w.LCM.Instances.FileStored(w.ctx, instanceID, path))
}

// arrive is an upload that the life cycle does not know yet.
func (w *world) arrive(path, content string) {
	w.Helper()
	_, err := w.Files.Put(w.ctx, files.Request{InstanceID: instanceID, Path: path, Body: strings.NewReader(content), ContentLength: int64(len(content))})
	w.must(err)
}

func (w *world) put(spec api.InstanceSpec) api.Instance {
	w.Helper()
	instance, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, spec)
	w.must(err)
	return instance
}

func (w *world) post(r api.OperationRequest) api.Operation {
	w.Helper()
	op, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	w.must(err)
	return op
}

func (w *world) operation(id string) api.Operation {
	w.Helper()
	op, err := w.LCM.Operations.GetOperation(w.ctx, instanceID, sequenceOf(id))
	w.must(err)
	return op
}

func (w *world) node(id string) api.Node {
	w.Helper()
	n, err := w.LCM.Nodes.GetNode(w.ctx, id)
	w.must(err)
	return n
}

// refused wants err to be a problem of this type that says these things.
func (w *world) refused(err error, problemType string, says ...string) {
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

// offers wants a refusal with these actions and no others.
func (w *world) offers(err error, actions ...api.Action) {
	w.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || !slices.Equal(p.Actions, actions) {
		w.Errorf("%+v, want the actions %+v", p, actions)
	}
}

// faults is every fault of a request that was refused.
func (w *world) faults(err error) []api.Fault {
	w.Helper()
	w.refused(err, api.ProblemInvalid)
	var p *api.Problem
	errors.As(err, &p)
	return p.InvalidParams
}

// enroll is a machine that redeems the instance's join token.
func (w *world) enroll(serverID string) error {
	w.Helper()
	token, err := w.Enrollment.JoinToken(w.ctx, instanceID)
	w.must(err)
	w.remote = w.remote.Next()       // the rate is limited for each address
	w.Clock.Advance(time.Nanosecond) // no two machines enroll at one moment
	_, err = w.Enrollment.Enroll(w.ctx, token, api.EnrollRequest{ServerID: serverID, CertificateRequest: testca.Request(testca.NewKey(), nil)}, w.remote)
	return err
}

// status is what an agent reports that has converged to its present document.
func (w *world) status(nodeID string) api.NodeStatus {
	w.Helper()
	config, digest, err := w.LCM.Nodes.NodeConfig(w.ctx, nodeID)
	w.must(err)
	s := api.NodeStatus{
		Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: digest,
		AppliedGeneration: config.Generation, AppliedDigest: digest,
	}
	for _, each := range append([]string{api.ConditionReady}, config.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, api.Condition{Type: each, Status: api.ConditionTrue, Reason: api.ReasonReady, ObservedGeneration: config.Generation, LastTransitionTime: w.Clock.Now()})
	}
	return s
}

func (w *world) report(nodeID string, s api.NodeStatus) {
	w.Helper()
	w.must(w.LCM.Nodes.ReportStatus(w.ctx, nodeID, s))
}

// converge enrolls the servers that have not and lets all report that they are ready.
func (w *world) converge(ids ...string) {
	w.Helper()
	for _, id := range ids {
		if w.node(id).State == api.NodeExpected {
			w.must(w.enroll(id))
		}
		w.report(id, w.status(id))
	}
}

// uuid is one of a family of ids.
func uuid(family, i int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", family, i) }
