package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/invariant"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// drawn is a *rapid.T with the directory of the test around it.
type drawn struct {
	*rapid.T
	dir string
}

func (d drawn) TempDir() string { return d.dir }

func (d drawn) Context() context.Context { return context.Background() }

// history drives one instance through any order of events and remembers what it
// was told.
type history struct {
	*lifecycletest.World
	// after is done after each event.
	after      func(*rapid.T)
	operations map[string]api.Operation
	// forgotten are the operations that are not kept any more, settled those that were
	// over when the state was restored.
	forgotten map[string]api.Operation
	settled   map[string]bool
	// applied is the document for which the machine now enrolled as a server has last
	// reported that it is ready, and its epoch.
	applied map[string]applied
	// told is what that machine has reported last.
	told map[string]api.NodeStatus
	// The cluster and the agents, what each storage server has said that it serves, and
	// the storage servers that a HEAL START takes away, by its operation.
	cluster  kubernetes
	machines map[string]*machine
	served   map[string]bool
	healed   map[int64]api.Server // by the sequence of the START
	// Heat, the VNFC instances that each operation has named, and when a server that
	// called had the stack observed last.
	heat     *heat
	named    map[string][]string
	observed time.Time
	// eventBegan is when the present event began, changed when the one did in which the targets
	// of an operation became what they are; gaveUp counts those that failed before their
	// deadline because no waiting makes their targets ready.
	eventBegan time.Time
	changed    map[string]time.Time
	gaveUp     int
	// The parameters of the last PUT, what each START has changed, by its sequence, the
	// requests that have a key, and whether TERMINATE END was the last that changed anything.
	parameters string
	starts     map[int64]begun
	sent       []api.OperationRequest
	terminated bool
	makers     makers
	made       int // how often a master was seen to be told to make the cluster
	// members: each PUT asks for cluster_members. inCluster are then the servers whose Nodes
	// the cluster has, and stuck those that cannot be drained.
	members          bool
	inCluster, stuck map[string]bool
	upgrade          *upgrade // nil unless nodehitch makes the cluster
	left             int      // STARTs that were over once members had left, not by force
	// byEvents is what there is by the events.
	byEvents *told
}

type applied struct {
	generation int64
	digest     string
	epoch      int64
}

// What a history's parameters have for its cluster.
const (
	noMembers, hasMembers, hasKubernetes = "", "cluster_members", "kubernetes"
)

// newHistory is an instance at the beginning of its history.
func newHistory(t *rapid.T, dir, cluster string, shared ...func() *store.Shared) *history {
	h := &history{World: lifecycletest.New(drawn{t, dir}, shared...), members: cluster != noMembers, operations: map[string]api.Operation{}, forgotten: map[string]api.Operation{}, settled: map[string]bool{}, applied: map[string]applied{}, told: map[string]api.NodeStatus{},
		cluster: kubernetes{}, machines: map[string]*machine{}, served: map[string]bool{}, healed: map[int64]api.Server{},
		heat: &heat{}, named: map[string][]string{}, changed: map[string]time.Time{}, starts: map[int64]begun{},
		inCluster: map[string]bool{}, stuck: map[string]bool{}, makers: makers{}}
	if cluster == hasKubernetes {
		h.upgrade = &upgrade{version: lifecycletest.OldVersion, told: map[string]string{}, drained: map[string]bool{}}
	}
	h.eventBegan = h.Clock.Now()
	h.Source, h.Lifecycle.Instances.Observer.Source, h.after = h.heat, h.heat, h.check
	first := lifecycletest.WithVolumes(nil)
	if rapid.Bool().Draw(t, "names a stack that is to come") {
		first.StackID = lifecycletest.StackOne
	}
	h.beginEvents()
	h.Must(h.tryPut(first))
	h.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	h.Upload(lifecycletest.ManifestFile, lifecycletest.ManifestOf("pv1"))
	if rapid.Bool().Draw(t, "begins instantiated") {
		h.instantiateAll(t)
	}
	return h
}

// events are what may happen to the instance, by name.
func (h *history) events() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"put": h.putAny, "start or end": h.postAny, "end": h.postEnd, "enroll": h.enrollAny, "converge": h.convergeAny,
		"report": h.reportAny, "fail": h.failAny, "wait": h.wait, "restart": func(*rapid.T) { h.Restart(); h.observed = time.Time{} },
		"cancel": h.cancelAny, "repeat": h.repeatAny, "restore": h.restore, "revoke": h.revokeAny, "format": h.formatAny, "decide": h.decideAny,
		"instantiate": h.instantiateAll, "heal storage": h.healStorage, "heal storage again": h.healStorage, "move storage": h.moveStorage, "converge again": h.convergeAny, "poll": h.pollAny, "tell": h.tellAny,
		"claim": h.claimAny, "tick": h.tick, "upload": h.uploadAny,
		"heat": h.heatChanges, "heat again": h.heatChanges, "put the stack": h.putStack, "new server": h.discoverAny, "new server again": h.discoverAny, "new server late": h.discoverLate, "new server meanwhile": h.discoverMeanwhile, "overtaken": h.overtaken,
	}
}

// Whatever happens in whatever order, and however little of the past is kept: no operation
// is lost that is to be kept, at most one is in progress, none past its deadline, an END
// completes only when each of its targets has reported its present document, and what is over
// stays over. No desired state is lost, however an operation ends, and no late repeat
// instantiates again what was terminated. No storage server is released while the cluster has
// volumes of it, and none is registered that it does not serve. No START is over while a member
// that it names is in the cluster, unless by force, and no member is asked to leave for longer.
// No two machines make a cluster. No member of one that nodehitch makes is told a lower version, or
// another one before its Node is drained, and no worker before all masters.
func TestNoOrderOfEventsBreaksAnOperation(t *testing.T) {
	gaveUp, left, made, upgraded := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) }) // many histories would fill the disk
		h := newHistory(rt, dir, rapid.SampledFrom([]string{noMembers, hasMembers, hasKubernetes}).Draw(rt, "cluster"))
		h.Keep(tx.Retention{Last: rapid.SampledFrom([]int{1, 2, 5, tx.Kept.Last}).Draw(rt, "kept"),
			Key: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, tx.Kept.Key}).Draw(rt, "for a key")})
		events := h.events()
		if h.members {
			events["cluster"], events["cluster again"], events["leave"], events["leave again"], events["get stuck"] = h.clusterAny, h.clusterAny, h.leaveAny, h.leaveAny, h.stickAny
		}
		if h.upgrade != nil {
			events["upgrade"], events["upgrade again"], events["upgrade goes on"] = h.upgradeAny, h.upgradeAny, h.upgradeGoesOn
			defer func() { upgraded += h.upgrade.members }()
		}
		events["tell of the cluster"], events["masters come"], events["masters come again"], events[""] = h.tellOfTheCluster, h.mastersCome, h.mastersCome, h.after
		rt.Repeat(events)
		gaveUp, left, made = gaveUp+h.gaveUp, left+h.left, made+h.made
	})
	t.Logf("%d operations ended early, because no waiting mended what their targets lacked; %d let members leave; %d members were upgraded", gaveUp, left, upgraded)
	if left == 0 && !testing.Short() {
		t.Error("no member left: let the events make clusters whose members may leave")
	}
	if gaveUp == 0 && !testing.Short() { // has a fifth of the checks
		t.Error("none did: let the events make nodes fail finally")
	}
	if upgraded == 0 && !testing.Short() {
		t.Error("no member was upgraded: let the events make clusters whose members are")
	}
	if made == 0 && !testing.Short() {
		t.Error("no cluster was made: let the events enroll masters")
	}
}

// pool is every server that ever is; at most one storage server is in a stack.
var pool = []api.Server{
	floating(lifecycletest.WithAddresses(lifecycletest.Server(lifecycletest.UUID(1, 1), "storage"), "10.10.0.5", "10.10.0.6"), "203.0.113.5"), floating(lifecycletest.WithAddresses(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), "10.10.0.7", "10.10.0.8"), "203.0.113.7"),
	lifecycletest.Server(lifecycletest.UUID(2, 1), "master"), lifecycletest.Server(lifecycletest.UUID(2, 2), "master"), lifecycletest.Server(lifecycletest.UUID(3, 1), "worker"),
}

// floating is the server with a floating address for its second one.
func floating(s api.Server, address string) api.Server {
	s.ConnectionPoints[1].FloatingAddresses = []string{address}
	return s
}

func drawStack(t *rapid.T) *api.Topology {
	if rapid.IntRange(0, 4).Draw(t, "no topology") == 0 {
		return nil
	}
	s := lifecycletest.TopologyOf()
	storage := rapid.IntRange(0, 2).Draw(t, "storage server")
	for i, server := range pool {
		if i == storage && rapid.IntRange(0, 5).Draw(t, "moved") == 0 {
			s.Servers = append(s.Servers, floating(lifecycletest.WithAddresses(server, "10.10.1.5", "10.10.1.6"), "203.0.113.15"))
		} else if i == storage || i >= 2 && rapid.Bool().Draw(t, server.ID) {
			s.Servers = append(s.Servers, server)
		}
	}
	s.StackStatus = rapid.SampledFrom([]string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_FAILED"}).Draw(t, "status")
	if rapid.IntRange(0, 5).Draw(t, "the volume is away") == 0 {
		s.Volumes = nil
		for i := range s.Servers {
			s.Servers[i].VolumeIds = nil
		}
	}
	return s
}

func (h *history) putAny(t *rapid.T) {
	clients := rapid.SampledFrom([]string{"10.10.0.0/24", "10.20.0.0/24"}).Draw(t, "exports")
	spec := api.InstanceSpec{Topology: h.drawStack(t), AdditionalParams: lifecycletest.Parameters(clients)}
	if rapid.IntRange(0, 5).Draw(t, "no manifests") > 0 {
		spec.AdditionalParams = lifecycletest.VolumesParameters(clients)
	}
	held := h.held()
	err := h.tryPut(spec)
	var refused *api.Problem
	if errors.As(err, &refused) && refused.Type == api.ProblemOperationInProgress {
		return // it would take a target from the operation in progress
	}
	if refused != nil && h.upgrade.isAhead() && strings.Contains(refused.Error(), "/kubernetes/version") {
		return // it would give a member a lower version
	}
	if refused != nil && refused.Type == api.ProblemVolumesInUse {
		h.checkRefused(t, held, refused)
		return
	}
	h.Must(err)
	h.checkHeld(t, held)
	h.observed = time.Time{}
}

func (h *history) postAny(t *rapid.T) {
	h.send(t, api.OperationRequest{
		Operation: rapid.SampledFrom([]api.OperationType{
			api.Instantiate, api.Heal, api.Scale, api.Terminate, api.ChangeExtConn, api.ModifyInfo, api.ChangeVnfPkg}).Draw(t, "operation"),
		Phase: rapid.SampledFrom([]api.OperationPhase{api.PhaseStart, api.PhaseEnd}).Draw(t, "phase"),
	})
}

func (h *history) postEnd(t *rapid.T) {
	h.send(t, api.OperationRequest{Operation: rapid.SampledFrom([]api.OperationType{api.Instantiate, api.Heal}).Draw(t, "operation")})
}

func (h *history) send(t *rapid.T, r api.OperationRequest) {
	r.Topology, r.Partial = h.drawStack(t), rapid.IntRange(0, 3).Draw(t, "complete") > 0
	r.DeadlineSeconds = rapid.SampledFrom([]int{60, 3600}).Draw(t, "deadline")
	r.IdempotencyKey = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key")
	switch {
	case r.Operation == api.Scale:
		r.Type = rapid.SampledFrom([]api.ScaleType{api.ScaleIn, api.ScaleOut}).Draw(t, "type")
		if r.Type == api.ScaleIn {
			r.VnfcInstanceIds = []string{"vnfc-" + lifecycletest.UUID(3, 1)}
		}
	case r.Operation == api.ChangeExtConn:
		r.ConnectionPointNames = drawPoints(t)
	case r.Operation == api.Heal && rapid.Bool().Draw(t, "one server"):
		r.VnfcInstanceIds = []string{"vnfc-" + rapid.SampledFrom(pool).Draw(t, "healed").ID}
	}
	h.posted(t, r)
}

func (h *history) posted(t *rapid.T, r api.OperationRequest) {
	answered, from := h.answered(r), h.takenBack()
	if r.IdempotencyKey != "" {
		h.sent = append(h.sent, r)
	}
	op, err := h.Lifecycle.Operations.PostOperation(h.Ctx, lifecycletest.InstanceID, r)
	var refused *api.Problem
	if errors.As(err, &refused) && (refused.Status < 500 || passes(refused)) {
		return
	}
	h.Must(err)
	h.observed = time.Time{}
	if answered != "" && op.ID != answered {
		t.Fatalf("the key %q was answered with operation %s, and now with %+v", r.IdempotencyKey, answered, op)
	}
	known, joined := h.operations[op.ID]
	if op.Operation != r.Operation {
		t.Fatalf("%s was answered with %+v", r.Operation, op)
	}
	if joined && known.IdempotencyKey != r.IdempotencyKey && r.Operation != api.Terminate {
		t.Fatalf("operation %s was returned for another key: %+v", op.ID, op)
	}
	if joined != op.Joined {
		t.Fatalf("operation %+v was known: %v", op, joined)
	}
	if !joined {
		h.began(op, from)
		first := op
		first.State = api.Processing
		h.operations[op.ID] = first
		h.remember(op, r, from.Topology)
		h.named[op.ID] = r.VnfcInstanceIds
		h.changed[op.ID] = h.eventBegan
	}
}

// answered is the operation on record that the request's key means, "" for none: it has
// succeeded since the last restore, or is in progress, or the instance was terminated after it.
func (h *history) answered(r api.OperationRequest) string {
	for _, op := range h.Operations() {
		if r.IdempotencyKey == "" || op.IdempotencyKey != r.IdempotencyKey {
			continue
		}
		if op.State != api.Failed && !h.settled[op.ID] && !h.endFailedAfter(op) || h.terminatedAfter(op) {
			return op.ID
		}
		return ""
	}
	return ""
}

// endFailedAfter reports whether the operation is a START, and the last END of its kind that
// came after it has failed.
func (h *history) endFailedAfter(start api.Operation) bool {
	var last api.Operation
	for _, op := range h.Operations() {
		if op.Sequence > max(start.Sequence, last.Sequence) && op.Phase == api.PhaseEnd && op.Operation == start.Operation && op.Type == start.Type {
			last = op
		}
	}
	return start.Phase == api.PhaseStart && last.State == api.Failed
}

func (h *history) enrollAny(t *rapid.T) {
	id := rapid.SampledFrom(pool).Draw(t, "server").ID
	h.join(id)
}

func (h *history) join(id string) {
	asked := h.heat.asked
	err := h.Enroll(id)
	if h.heat.asked > asked { // it was none that a topology names
		h.observed = h.Clock.Now()
	}
	if err == nil { // another machine, or a new key: it has not reported yet
		delete(h.applied, id)
		delete(h.told, id)
		delete(h.machines, id)
	}
}

// nodes is those that have a document.
func (h *history) nodes() []api.Node {
	list, err := h.Lifecycle.Nodes.ListNodes(h.Ctx, lifecycletest.InstanceID, true)
	h.Must(err)
	return list
}

func (h *history) convergeAny(t *rapid.T) {
	for _, n := range h.nodes() {
		if n.State == api.NodeExpected {
			h.join(n.ID)
		}
		if h.poll(t, n.ID) {
			said := h.machines[n.ID].said
			h.tell(n.ID, said[len(said)-1])
		}
	}
}

func (h *history) reportAny(t *rapid.T) {
	nodes := h.nodes()
	if len(nodes) == 0 {
		t.Skip("no nodes")
	}
	n := rapid.SampledFrom(nodes).Draw(t, "node")
	if n.EnrolledAt == nil {
		t.Skip("who has no certificate cannot report")
	}
	s := h.Status(n.ID)
	switch rapid.SampledFrom([]string{"ready", "not ready", "silent", "stale", "of another epoch", "failed", "tried again"}).Draw(t, "status") {
	case "not ready":
		s.Conditions[0].Status = api.ConditionFalse
	case "silent": // of its sections
		s.Conditions = s.Conditions[:1]
	case "stale":
		s.AppliedDigest = "old"
	case "of another epoch":
		s.Epoch--
	case "failed":
		s = h.failed(s)
	case "tried again":
		s = h.failed(s)
		s.LastFailedGeneration, s.LastFailedCondition = 0, ""
	}
	h.tell(n.ID, s)
}

// failed is the status of a machine that has failed so that an operator has to act.
func (h *history) failed(s api.NodeStatus) api.NodeStatus {
	s.Conditions = slices.Clone(s.Conditions)
	c := &s.Conditions[len(s.Conditions)-1]
	c.Status, c.Reason = api.ConditionFalse, api.ReasonForeignData
	s.Condition(api.ConditionReady).Status = api.ConditionFalse
	s.LastFailedGeneration, s.LastFailedCondition = s.ObservedGeneration, c.Type
	s.AppliedGeneration, s.AppliedDigest = 0, ""
	return s
}

// failAny is an END, or the one in progress, to which all machines report; some report that
// they have failed. Then time passes and nothing changes: if no waiting completes the END, it
// must be over.
func (h *history) failAny(t *rapid.T) {
	h.posted(t, api.OperationRequest{Operation: api.Instantiate, Topology: lifecycletest.TopologyOf(pool[0], pool[2], pool[4]), DeadlineSeconds: 3600})
	h.after(t) // it may be over at once
	var failing, others []string
	tried := map[string]bool{}
	for _, n := range h.nodes() {
		if n.State == api.NodeExpected {
			h.join(n.ID)
		}
		switch rapid.SampledFrom([]string{"failed", "failed", "ready", "ready", "tried again"}).Draw(t, "reports") {
		case "tried again":
			tried[n.ID] = true
			fallthrough
		case "failed":
			failing = append(failing, n.ID)
		default:
			others = append(others, n.ID)
		}
	}
	for i, id := range slices.Concat(failing, others) { // the last one may end it
		if !h.poll(t, id) {
			continue
		}
		said := h.machines[id].said
		s := said[len(said)-1]
		if i < len(failing) {
			s = h.failed(s)
		}
		if tried[id] {
			s.LastFailedGeneration, s.LastFailedCondition = 0, ""
		}
		h.tell(id, s)
	}
	h.after(t) // before time passes, which may take an operation back
	nothing := rapid.SampledFrom([]time.Duration{lifecycletest.Grace - time.Second, lifecycletest.Grace, 2 * lifecycletest.Grace}).Draw(t, "for so long nothing changes")
	h.Wait(nothing)
	for _, op := range h.Operations() {
		if op.State == api.Processing && op.Phase == api.PhaseEnd && nothing >= lifecycletest.Grace && !slices.ContainsFunc(op.Targets, h.mayMend) {
			t.Fatalf("operation %s waits for what no waiting mends: %+v", op.ID, op)
		}
	}
}

// tell reports, and records what the report says to be applied.
func (h *history) tell(id string, s api.NodeStatus) {
	now, live := h.Status(id), h.Node(id).State
	h.told[id] = s
	delete(h.applied, id)
	if len(s.Conditions) == len(now.Conditions) && s.Conditions[0].Status == api.ConditionTrue && s.AppliedDigest == s.ObservedDigest {
		h.applied[id] = applied{s.ObservedGeneration, s.AppliedDigest, s.Epoch}
	}
	c := s.Condition(api.ConditionExportsServed)
	counts := s.ObservedDigest == now.ObservedDigest && s.ObservedGeneration == now.ObservedGeneration && s.Epoch == h.Store.Epoch()
	if c != nil && c.Status == api.ConditionTrue && counts && (live == api.NodeEnrolled || live == api.NodeLost) {
		h.served[h.serves(id)] = true
	}
	if h.upgrade != nil && counts && live == api.NodeEnrolled {
		h.drains(id, s)
	}
	h.Report(id, s)
	h.checkUpgrade()
}

func (h *history) wait(t *rapid.T) {
	h.Clock.Advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "minutes")) * time.Minute)
	open, from, before := h.open(), h.takenBack(), h.content()
	h.Must(h.Lifecycle.Sweep(h.Ctx))
	h.checkDeadlines(t)
	if op, ok := h.operations[api.OperationID(lifecycletest.InstanceID, open)]; ok && op.Phase == api.PhaseStart && h.Operation(op.ID).State == api.Failed {
		before = from
	}
	h.checkContent(t, before)
}

func (h *history) restore(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip()
	}
	h.Clock.Advance(time.Second)
	for _, op := range h.Operations() {
		h.settled[op.ID] = op.State != api.Processing
	}
	h.Restore()
	h.observed = time.Time{}
	if rapid.Bool().Draw(t, "confirmed") {
		_, err := h.Lifecycle.Instances.ConfirmInstance(h.Ctx, lifecycletest.InstanceID)
		h.Must(err)
	}
}

func (h *history) revokeAny(t *rapid.T) {
	nodes := h.nodes()
	if len(nodes) == 0 {
		t.Skip("no nodes")
	}
	id := rapid.SampledFrom(nodes).Draw(t, "node").ID
	if rapid.Bool().Draw(t, "and enroll again") {
		_ = h.Enrollment.Reenroll(h.Ctx, id) // refused if the topology no longer has it
		return
	}
	h.Must(h.Enrollment.Revoke(h.Ctx, id, "by hand"))
}

// formatAny is one message of the format exchange, with the permit on record or none.
func (h *history) formatAny(t *rapid.T) {
	var v store.Volume
	h.Must(h.Store.View(func(tx *store.Tx) (err error) {
		v, _, err = tx.Volumes().Get(lifecycletest.Volume)
		return err
	}))
	r := api.FormatReport{Phase: rapid.SampledFrom([]api.FormatPhase{api.FormatWanted, api.FormatStarted, api.FormatFormatted}).Draw(t, "phase"),
		SizeBytes: 1 << 30, FilesystemUUID: v.FilesystemUUID}
	if r.Phase != api.FormatWanted {
		r.Permit = v.Permit.ID
	} else if rapid.Bool().Draw(t, "proven") {
		r.BlankCheck = &api.BlankCheck{}
	}
	_, err := h.Permits.Report(h.Ctx, rapid.SampledFrom(pool).Draw(t, "server").ID, lifecycletest.Volume, r)
	h.unless(err)
}

// decideAny is an operator's word on the volume.
func (h *history) decideAny(t *rapid.T) {
	var err error
	if rapid.Bool().Draw(t, "reformat") {
		_, err = h.Permits.Reformat(h.Ctx, lifecycletest.Volume, lifecycletest.Volume)
	} else {
		_, err = h.Permits.Adopt(h.Ctx, lifecycletest.Volume, "0e7a1e8a-0000-4000-8000-000000000001")
	}
	h.unless(err)
}

// unless wants no error but the answer that this may not be.
func (h *history) unless(err error) {
	var refused *api.Problem
	if !errors.As(err, &refused) || refused.Status >= 500 && !passes(refused) {
		h.Must(err)
	}
}

// passes: nothing is wrong with the controller.
func passes(p *api.Problem) bool {
	return slices.Contains([]string{api.ProblemRestoreUnconfirmed, api.ProblemCloudError}, p.Type)
}

// check holds everything that can be seen against what must be true at any time.
func (h *history) check(t *rapid.T) {
	now := map[string]api.Operation{}
	working := 0
	for _, op := range h.Operations() {
		now[op.ID] = op
		if op.State == api.Processing {
			working++
		}
	}
	if working > 1 {
		t.Fatalf("%d operations are in progress: %+v", working, now)
	}
	for id, before := range h.operations {
		after, ok := now[id]
		if !ok {
			h.checkForgotten(t, before)
			continue
		}
		h.checkStep(t, before, after)
		h.checkEarly(t, before, after)
		h.operations[id] = after
	}
	h.eventBegan = h.Clock.Now()
	h.checkRetention(t, now)
	h.checkDesired(t)
	if len(now) != len(h.operations) {
		t.Fatalf("operations %+v are on record, and only %+v were posted", now, h.operations)
	}
	h.checkNodes(t)
	h.checkVolumes(t)
	h.checkMakers(t)
	h.checkMembers(t)
	h.checkUpgrade()
	h.checkEvents(t)
	broken, err := invariant.Check(h.Store, nil)
	h.Must(err)
	if len(broken) > 0 {
		t.Fatalf("the records contradict each other: %q", broken)
	}
	if h.Writes(func() { h.Must(h.Lifecycle.Reconciler.Reconcile(h.Ctx, lifecycletest.InstanceID)) }) {
		t.Fatalf("the records were not in line with the desired state in force")
	}
}

func (h *history) checkStep(t *rapid.T, before, after api.Operation) {
	interrupted := before.Phase == api.PhaseStart && before.State == api.Completed && after.State == api.Failed &&
		slices.Contains([]string{api.ProblemInterrupted, api.ProblemCancelled, api.ProblemSuperseded}, after.Error.Type)
	if before.State != api.Processing && before.State != after.State && !interrupted {
		t.Fatalf("operation %s was %s and is %s: %+v", before.ID, before.State, after.State, after)
	}
	if (after.State == api.Failed) != (after.Error != nil) || (after.State == api.Processing) != (after.FinishedAt == nil) {
		t.Fatalf("operation %+v contradicts itself", after)
	}
	for _, id := range completion.TargetIDs(before.Targets) {
		// A START waits for the node that speaks for the cluster.
		if !slices.Contains(completion.TargetIDs(after.Targets), id) && (after.Phase == api.PhaseEnd || len(after.Targets) != 1) {
			t.Fatalf("operation %s has lost its target %s: %+v", before.ID, id, after)
		}
	}
	if before.State != api.Processing || after.State != api.Completed {
		return
	}
	if after.Phase == api.PhaseStart {
		h.checkWithdrawn(t, after)
		h.checkLeft(t, after)
		return
	}
	if after.Operation == api.Terminate { // the stack is deleted, and its cluster with it
		clear(h.cluster)
		clear(h.inCluster)
	}
	if len(after.Withheld) > 0 {
		t.Fatalf("operation %s completed with sections withheld: %+v", after.ID, after)
	}
	for _, target := range after.Targets {
		if !target.Ready || !h.isProven(target.NodeID) {
			t.Fatalf("operation %s completed and its target %s has not applied its document: %+v", after.ID, target.NodeID, after)
		}
	}
	if after.Operation == api.Instantiate {
		if nodes := h.Instance().Nodes; !slices.Equal(completion.TargetIDs(after.Targets), nodes) {
			// A PUT may have brought servers while the operation was in progress.
			h.checkSubset(t, after, nodes)
		}
	}
}

// checkSubset wants no target that the topology does not have.
func (h *history) checkSubset(t *rapid.T, op api.Operation, nodes []string) {
	for _, id := range completion.TargetIDs(op.Targets) {
		if !slices.Contains(nodes, id) {
			t.Fatalf("operation %s completed with target %s, which is not in %v", op.ID, id, nodes)
		}
	}
}

// checkEarly wants no END to fail before its deadline unless it has waited for the grace, with
// no target that waiting could have made ready.
func (h *history) checkEarly(t *rapid.T, before, after api.Operation) {
	isNew := func(target api.OperationTarget) bool { return !slices.Contains(before.Targets, target) }
	if len(before.Targets) != len(after.Targets) || slices.ContainsFunc(after.Targets, isNew) {
		h.changed[after.ID] = h.eventBegan
	}
	if after.Error == nil || after.Error.Type != api.ProblemTargetsFailed || before.State == api.Failed {
		return
	}
	h.gaveUp++
	if waited := h.Clock.Now().Sub(h.changed[after.ID]); waited < lifecycletest.Grace || after.Phase != api.PhaseEnd {
		t.Fatalf("operation %s gave up after at most %s: %+v", after.ID, waited, after)
	}
	if i := slices.IndexFunc(after.Targets, h.mayMend); i >= 0 {
		t.Fatalf("operation %s gave up, and its target %s has not failed: %+v", after.ID, after.Targets[i].NodeID, after)
	}
}

// mayMend reports whether waiting may make the target ready.
func (h *history) mayMend(target api.OperationTarget) bool {
	return !target.Ready && !h.hasFailed(target.NodeID) && (target.WaitsFor == "" || !h.hasFailed(target.WaitsFor))
}

// hasFailed reports whether only an operator mends what the node lacks: its document lacks what
// another request has to bring, or its machine has said so of the present document.
func (h *history) hasFailed(id string) bool {
	n := h.Node(id)
	if slices.ContainsFunc(n.Withheld, func(w api.Withheld) bool {
		return w.Reason == api.ReasonVolumeUnresolved || w.Reason == api.ReasonConnectionPointUnresolved
	}) {
		return true
	}
	told := h.told[id]
	c := told.Condition(told.LastFailedCondition)
	current := told.Epoch == h.Store.Epoch() && told.ObservedDigest == n.Digest && told.LastFailedGeneration == n.Generation
	return c != nil && current && (n.State == api.NodeEnrolled || n.State == api.NodeLost) && c.Status == api.ConditionFalse &&
		slices.Contains([]api.Reason{api.ReasonForeignPersistentVolume, api.ReasonSourceImmutable, api.ReasonForeignData}, c.Reason)
}

func (h *history) isProven(id string) bool {
	n := h.Node(id)
	return n.State != api.NodeRevoked && n.State != api.NodeExpected && h.applied[id] == applied{n.Generation, n.Digest, h.Store.Epoch()}
}

func (h *history) checkNodes(t *rapid.T) {
	expected := h.Instance().Nodes
	for _, n := range h.nodes() {
		config, digest, err := h.Lifecycle.Nodes.NodeConfig(h.Ctx, n.ID)
		h.Must(err)
		if digest != config.Digest() || digest != n.Digest || config.Generation != n.Generation {
			t.Fatalf("node %+v has the document %+v", n, config)
		}
		if n.Ready && (!slices.Contains(expected, n.ID) || !h.isProven(n.ID)) {
			t.Fatalf("node %+v is shown as ready", n)
		}
		inForce := slices.Contains(expected, n.ID)
		if inForce && config.Epoch != h.Store.Epoch() {
			t.Fatalf("the document of %s is of epoch %d, the controller's is %d", n.ID, config.Epoch, h.Store.Epoch())
		}
		if s := config.Storage; s != nil && (len(s.Volumes) != 1 || len(s.Exports) != 1) {
			t.Fatalf("the document of %s has half a section: %+v", n.ID, s)
		}
		if v, err := h.Permits.Get(h.Ctx, lifecycletest.Volume); inForce && config.Storage != nil && (err != nil || v.NodeID != n.ID) {
			t.Fatalf("%s has the volume in its document, the record says %+v (%v)", n.ID, v, err)
		}
	}
}
