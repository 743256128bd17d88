package lcm_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An operation that waits for nothing starts and finishes in one transaction: two lines.
func TestALogReaderSeesOperationsStartAndFinish(t *testing.T) {
	w := newWorld(t)
	var log strings.Builder
	w.LCM.Reconciler.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	w.post(request(api.Instantiate, api.PhaseStart))
	for event, state := range map[string]api.OperationState{api.EventOperationStarted: api.Processing, api.EventOperationFinished: api.Completed} {
		if n := strings.Count(log.String(), "event="+event+" instance="+instanceID); n != 1 || !strings.Contains(log.String(), "state="+string(state)) {
			t.Errorf("%s %d times, state %s: %s", event, n, state, log.String())
		}
	}
}

func TestInstantiateEndsWhenEveryTargetHasAppliedItsDocument(t *testing.T) {
	w := newWorld(t)
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	start := w.post(request(api.Instantiate, api.PhaseStart))
	if start.State != api.Completed || start.Phase != api.PhaseStart {
		t.Errorf("INSTANTIATE START is %+v, want COMPLETED", start)
	}
	end := api.OperationRequest{Operation: api.Instantiate, Topology: full(), StackID: stackOne}
	op := w.post(end)
	if op.State != api.Processing || op.Phase != api.PhaseEnd || len(op.Targets) != 3 || op.Targets[0].Reason != api.ReasonNotEnrolled {
		t.Fatalf("INSTANTIATE END is %+v, want PROCESSING with three targets that have not enrolled", op)
	}
	changed, stop := w.Hub.Watch(op.ID)
	defer stop()
	w.converge(masterServer, workerServer)
	w.must(w.enroll(storageServer))

	old := w.status(storageServer)
	old.AppliedDigest = "of an older document"
	w.report(storageServer, old)
	if op = w.operation(op.ID); op.State != api.Processing || op.Targets[0].Ready || !op.Targets[1].Ready {
		t.Errorf("with a stale digest the operation is %+v", op)
	}
	otherLife := w.status(storageServer)
	otherLife.Epoch--
	w.report(storageServer, otherLife)
	if op = w.operation(op.ID); op.State != api.Processing || op.Targets[0].Reason != api.ReasonNotReported {
		t.Errorf("with a status of another epoch the operation is %+v", op)
	}
	notMounted := w.status(storageServer)
	notMounted.AppliedDigest, notMounted.Conditions[0].Status = "", api.ConditionFalse
	*notMounted.Condition(api.ConditionVolumesMounted) = api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse,
		Reason: api.ReasonForeignData, Message: "ext4 of another owner"}
	w.report(storageServer, notMounted)
	if op = w.operation(op.ID); op.Targets[0].Reason != api.ReasonForeignData || !strings.Contains(op.Targets[0].Message, "ext4 of another owner") {
		t.Errorf("the target waits for %+v, want the condition's own words", op.Targets[0])
	}
	if got := w.instance().State; got != api.NotInstantiated {
		t.Errorf("the instance is %s before the END has completed", got)
	}
	w.converge(storageServer)
	if op = w.operation(op.ID); op.State != api.Completed || op.FinishedAt == nil || !op.Targets[0].Ready {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", op)
	}
	if !woken(changed) {
		t.Error("who waits for the operation was not woken")
	}
	if got := w.instance(); got.State != api.Instantiated || got.StackID != stackOne {
		t.Errorf("the instance is %s of stack %q, want INSTANTIATED of stack-1", got.State, got.StackID)
	}
}

func (w *world) instance() api.Instance {
	w.Helper()
	i, err := w.LCM.Instances.GetInstance(w.ctx, instanceID)
	w.must(err)
	return i
}

func TestWithheldSectionsHoldTheOperationUp(t *testing.T) {
	w := newWorld(t)
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	unattached := full()
	unattached.Volumes, unattached.StackStatus = nil, "" // a complete one would fail at once
	unattached.Servers[0].VolumeIds = nil
	r := request(api.Instantiate, api.PhaseEnd)
	r.Topology = unattached
	op := w.post(r)
	w.converge(storageServer, masterServer, workerServer)
	op = w.operation(op.ID)
	if op.State != api.Processing || len(op.Withheld) != 1 || op.Targets[0].Reason != api.ReasonVolumeUnresolved {
		t.Fatalf("the operation is %+v, want PROCESSING while storage is withheld", op)
	}
	w.put(spec(full())) // the topology that was wrong is given once more
	if op = w.operation(op.ID); op.State != api.Processing {
		t.Errorf("the operation is %s before the new document is applied", op.State)
	}
	w.converge(storageServer)
	if op = w.operation(op.ID); op.State != api.Completed {
		t.Errorf("the operation is %+v, want COMPLETED", op)
	}
}

func TestTheDeadlineNamesWhatEachTargetWaitsFor(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	r := request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 600
	op := w.post(r)
	w.converge(masterServer, storageServer)
	w.Clock.Advance(599 * time.Second)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.operation(op.ID); got.State != api.Processing {
		t.Fatalf("the operation is %s a second before its deadline", got.State)
	}
	w.Clock.Advance(time.Second)
	w.must(w.LCM.Sweep(w.ctx))
	failed := w.operation(op.ID)
	if failed.State != api.Failed {
		t.Fatalf("the operation is %+v after its deadline", failed)
	}
	w.refused(failed.Error, api.ProblemDeadline, "10m0s", "worker ("+workerServer+"): NotEnrolled")
	if strings.Contains(failed.Error.Detail, masterServer) {
		t.Errorf("the error names a node that was ready: %s", failed.Error.Detail)
	}

	// A retry finds nothing new and nothing changed, and still waits for the worker.
	retry := w.post(request(api.Instantiate, api.PhaseEnd))
	if retry.State != api.Processing {
		t.Fatalf("the retry is %+v, want PROCESSING", retry)
	}
	w.converge(workerServer)
	if got := w.operation(retry.ID); got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	if got := w.operation(op.ID); got.State != api.Failed {
		t.Errorf("the first attempt became %s", got.State)
	}
}

func TestARetryOfAScaleOutWaitsForTheServersOfTheFirstAttempt(t *testing.T) {
	w := instantiated(t)
	grown := full()
	second := uuid(3, 2)
	grown.Servers = append(grown.Servers, server(second, "worker"))
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	if want := []string{second}; !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Fatalf("targets %v, want the new worker alone", op.Targets)
	}
	w.Clock.Advance(31 * time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	for range 2 { // Tacker's retry sends no topology that is new any more
		op = w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
		if want := []string{second}; op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
			t.Fatalf("the retry is %+v, want PROCESSING for the new worker", op)
		}
		w.Clock.Advance(31 * time.Minute)
		w.must(w.LCM.Sweep(w.ctx))
	}
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.converge(second)
	if got := w.operations()[0]; got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	// The next operation does not wait for what is settled.
	if op = w.post(scale(api.ScaleOut, api.PhaseEnd, grown)); op.State != api.Completed || len(op.Targets) != 0 {
		t.Errorf("an operation without new servers is %+v, want COMPLETED without targets", op)
	}
}

func (w *world) operations() []api.Operation {
	w.Helper()
	list, err := w.LCM.Operations.ListOperations(w.ctx, instanceID)
	w.must(err)
	return list
}

func TestServersThatAPutBroughtAreNewToTheNextEnd(t *testing.T) {
	w := instantiated(t)
	grown := full()
	second := uuid(3, 2)
	grown.Servers = append(grown.Servers, server(second, "worker"))
	w.put(spec(grown))
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, nil))
	if want := []string{second}; op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Errorf("the operation is %+v, want PROCESSING for the new worker", op)
	}
}

func TestTheIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	r := request(api.Instantiate, api.PhaseEnd)
	r.IdempotencyKey = "occurrence-1"
	first := w.post(r)
	if joined := w.post(r); joined.ID != first.ID {
		t.Errorf("the same key made operation %s while %s is in progress", joined.ID, first.ID)
	}
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	anew := w.post(r)
	if anew.ID == first.ID || anew.State != api.Processing {
		t.Errorf("after a failure the key gives %+v, want a new attempt", anew)
	}
	w.converge(storageServer, masterServer, workerServer)
	if done := w.post(r); done.ID != anew.ID || done.State != api.Completed {
		t.Errorf("after a success the key gives %+v, want it", done)
	}
	other := request(api.Terminate, api.PhaseEnd)
	other.IdempotencyKey = r.IdempotencyKey
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, other)
	w.refused(err, api.ProblemConflict, "occurrence-1", "(INSTANTIATE) of this instance")
	if got := len(w.operations()); got != 2 {
		t.Errorf("%d operations on record, want 2", got)
	}
}

func TestOneOperationAtATime(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	for _, r := range []api.OperationRequest{request(api.Instantiate, api.PhaseStart), request(api.Instantiate, api.PhaseEnd)} {
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
		w.refused(err, api.ProblemOperationInProgress, "operation "+op.ID+" (INSTANTIATE), since ")
		w.offers(err, api.Action{Call: api.CallGetOperation, ID: op.ID}, api.Action{Call: api.CallCancelOperation, ID: op.ID})
	}
}

func TestAFailedStackFailsTheEndWithHeatsReason(t *testing.T) {
	w := instantiated(t)
	version := w.instance().DesiredVersion
	broken := topologyOf(server(masterServer, "master"))
	broken.StackStatus, broken.StackStatusReason = "UPDATE_FAILED", "resources.storage_server: No valid host was found"
	op := w.post(heal(api.PhaseEnd, broken, storageServer))
	if op.State != api.Failed {
		t.Fatalf("the operation is %+v, want FAILED", op)
	}
	w.refused(op.Error, api.ProblemStackFailed, "UPDATE_FAILED", "No valid host was found")
	if got := w.instance(); got.DesiredVersion != version || len(got.Nodes) != 3 {
		t.Errorf("the topology of a failed stack is in force: version %d, nodes %v", got.DesiredVersion, got.Nodes)
	}
	if n := w.node(storageServer); n.State != api.NodeEnrolled {
		t.Errorf("the storage server is %s", n.State)
	}
}

// Heat has put back what was there before: nothing of what the END is about.
func TestAStackThatWasRolledBackFailsTheEnd(t *testing.T) {
	w, c := created(t)
	c.status(stackOne, "ROLLBACK_COMPLETE", "Stack rollback completed successfully")
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, nil))
	w.refused(op.Error, api.ProblemStackFailed, "ROLLBACK_COMPLETE")
	c.status(stackOne, "ROLLBACK_IN_PROGRESS", "")
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, scale(api.ScaleOut, api.PhaseEnd, nil))
	w.refused(err, api.ProblemStackInProgress)
}

// A quota, or a port that Neutron refuses, ends a stack before it has any server.
func TestAStackThatFailedBeforeItHadServers(t *testing.T) {
	for name, made := range map[string]*api.Topology{"without servers": topologyOf(), "with another stack's server": topologyOf(server(uuid(5, 1), "master"))} {
		t.Run(name, func(t *testing.T) {
			w, c := inCloud(t)
			_, _, err := w.LCM.Instances.PutInstance(w.ctx, uuid(8, 8), spec(topologyOf(server(uuid(5, 1), "master"))))
			w.must(err)
			w.put(stackSpec(stackOne))
			w.upload(script, "#!/bin/sh\n")
			c.stacks[stackOne] = made
			c.status(stackOne, "CREATE_FAILED", "Quota exceeded for resources: ['port']")
			op := w.post(request(api.Instantiate, api.PhaseEnd))
			w.refused(op.Error, api.ProblemStackFailed, "Quota exceeded")
			if i := w.instance(); op.State != api.Failed || i.Topology != nil {
				t.Errorf("the operation is %+v, the topology %+v", op, i.Topology)
			}
		})
	}
}

func TestFilesAreRequiredOnceForStartAndEnd(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	for _, phase := range []api.OperationPhase{api.PhaseStart, api.PhaseEnd} {
		_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, phase))
		w.refused(err, api.ProblemFilesMissing, "/additionalParams/k8s_cluster_installation_param/script_path", script+" is missing")
	}
	w.upload(script, "")
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseStart))
	w.refused(err, api.ProblemFilesMissing, script+" is empty")
	if i := w.instance(); len(i.MissingFiles) != 0 || len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("missing %v, files %+v; want the file with its fault", i.MissingFiles, i.Files)
	}
	w.upload(script, "#!/bin/sh\n")
	w.post(request(api.Instantiate, api.PhaseStart))
	other := spec(nil)
	other.AdditionalParams = []byte(strings.Replace(string(other.AdditionalParams), script, "Scripts/other.sh", 1))
	w.put(other)
	w.post(request(api.Instantiate, api.PhaseEnd)) // its START has completed
	w.converge(storageServer, masterServer, workerServer)
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseEnd)) // an END without START
	w.refused(err, api.ProblemFilesMissing, "Scripts/other.sh")
	w.post(request(api.Terminate, api.PhaseStart)) // needs no files
}

func TestTwoManifestsMayNotRegisterOneVolume(t *testing.T) {
	w := newWorld(t)
	withPVs := spec(full())
	withPVs.AdditionalParams = []byte(strings.Replace(string(withPVs.AdditionalParams), `"storage_server": {`,
		`"pv_registration_params": [{"pv_manifest_file_path": "pv1.yaml", "nfs_server_cp": "storage_server_CP"},
		{"pv_manifest_file_path": "pv2.yaml", "nfs_server_cp": "storage_server_CP"}], "storage_server": {`, 1))
	w.put(withPVs)
	w.upload(script, "#!/bin/sh\n")
	const manifest = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv1}\n" +
		"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], nfs: {server: 0.0.0.0, path: /volume/nfs/pv1}}\n"
	w.upload("pv1.yaml", manifest)
	w.upload("pv2.yaml", manifest)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseStart))
	w.refused(err, api.ProblemFilesMissing, "/pv_registration_params/1/pv_manifest_file_path", `PersistentVolume "pv1"`)
	w.upload("pv2.yaml", strings.Replace(manifest, "name: pv1", "name: pv2", 1))
	w.post(request(api.Instantiate, api.PhaseStart))
}

func TestAFileMayComeBeforeItsInstance(t *testing.T) {
	w := newWorld(t)
	w.upload(script, "")
	if i := w.put(spec(full())); len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("files %+v, want the one there is with its fault", i.Files)
	}
}

func TestAFileWhoseCheckWasCutOffBlocksUntilItIsChecked(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	key := store.FileKey(instanceID, script)
	w.must(w.Store.Update(func(tx *store.Tx) error {
		f, _, err := tx.Files().Get(key)
		w.must(err)
		f.ValidatedFor = "" // what an upload leaves that dies before the check
		return tx.Files().Put(key, f)
	}))
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseStart))
	w.refused(err, api.ProblemFilesMissing, "still being checked")
	w.restart()
	w.post(request(api.Instantiate, api.PhaseStart))
}

func TestOperationsAreListedNewestFirst(t *testing.T) {
	w := instantiated(t)
	w.Clock.Advance(time.Minute)
	w.post(request(api.Terminate, api.PhaseStart))
	var got []string
	for _, op := range w.operations() {
		got = append(got, string(op.Operation)+" "+string(op.Phase))
	}
	if want := []string{"TERMINATE START", "INSTANTIATE END"}; !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	for _, sequence := range []int64{0, 3, -1} {
		_, err := w.LCM.Operations.GetOperation(w.ctx, instanceID, sequence)
		w.refused(err, api.ProblemNotFound)
	}
	_, err := w.LCM.Operations.ListOperations(w.ctx, uuid(7, 7))
	w.refused(err, api.ProblemNotFound)
}
