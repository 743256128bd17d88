package lcm_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// An operation that waits for nothing starts and finishes in one transaction: two lines.
func TestALogReaderSeesOperationsStartAndFinish(t *testing.T) {
	w := lcmtest.New(t)
	var log strings.Builder
	w.LCM.Reconciler.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.Put(lcmtest.Spec(nil))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	for event, state := range map[string]api.OperationState{api.EventOperationStarted: api.Processing, api.EventOperationFinished: api.Completed} {
		if n := strings.Count(log.String(), "event="+event+" instance="+lcmtest.InstanceID); n != 1 || !strings.Contains(log.String(), "state="+string(state)) {
			t.Errorf("%s %d times, state %s: %s", event, n, state, log.String())
		}
	}
}

func TestInstantiateEndsWhenEveryTargetHasAppliedItsDocument(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(nil))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	start := w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	if start.State != api.Completed || start.Phase != api.PhaseStart {
		t.Errorf("INSTANTIATE START is %+v, want COMPLETED", start)
	}
	end := api.OperationRequest{Operation: api.Instantiate, Topology: lcmtest.FullTopology(), StackID: lcmtest.StackOne}
	op := w.Post(end)
	if op.State != api.Processing || op.Phase != api.PhaseEnd || len(op.Targets) != 3 || op.Targets[0].Reason != api.ReasonNotEnrolled {
		t.Fatalf("INSTANTIATE END is %+v, want PROCESSING with three targets that have not enrolled", op)
	}
	changed, stop := w.Hub.Watch(op.ID)
	defer stop()
	w.Converge(lcmtest.MasterServer, lcmtest.WorkerServer)
	w.Must(w.Enroll(lcmtest.StorageServer))

	old := w.Status(lcmtest.StorageServer)
	old.AppliedDigest = "of an older document"
	w.Report(lcmtest.StorageServer, old)
	if op = w.Operation(op.ID); op.State != api.Processing || op.Targets[0].Ready || !op.Targets[1].Ready {
		t.Errorf("with a stale digest the operation is %+v", op)
	}
	otherLife := w.Status(lcmtest.StorageServer)
	otherLife.Epoch--
	w.Report(lcmtest.StorageServer, otherLife)
	if op = w.Operation(op.ID); op.State != api.Processing || op.Targets[0].Reason != api.ReasonNotReported {
		t.Errorf("with a status of another epoch the operation is %+v", op)
	}
	notMounted := w.Status(lcmtest.StorageServer)
	notMounted.AppliedDigest, notMounted.Conditions[0].Status = "", api.ConditionFalse
	*notMounted.Condition(api.ConditionVolumesMounted) = api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse,
		Reason: api.ReasonForeignData, Message: "ext4 of another owner"}
	w.Report(lcmtest.StorageServer, notMounted)
	if op = w.Operation(op.ID); op.Targets[0].Reason != api.ReasonForeignData || !strings.Contains(op.Targets[0].Message, "ext4 of another owner") {
		t.Errorf("the target waits for %+v, want the condition's own words", op.Targets[0])
	}
	if got := w.Instance().State; got != api.NotInstantiated {
		t.Errorf("the instance is %s before the END has completed", got)
	}
	w.Converge(lcmtest.StorageServer)
	if op = w.Operation(op.ID); op.State != api.Completed || op.FinishedAt == nil || !op.Targets[0].Ready {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", op)
	}
	if !lcmtest.Woken(changed) {
		t.Error("who waits for the operation was not woken")
	}
	if got := w.Instance(); got.State != api.Instantiated || got.StackID != lcmtest.StackOne {
		t.Errorf("the instance is %s of stack %q, want INSTANTIATED of stack-1", got.State, got.StackID)
	}
}

func TestWithheldSectionsHoldTheOperationUp(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(nil))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	unattached := lcmtest.FullTopology()
	unattached.Volumes, unattached.StackStatus = nil, "" // a complete one would fail at once
	unattached.Servers[0].VolumeIds = nil
	r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	r.Topology = unattached
	op := w.Post(r)
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	op = w.Operation(op.ID)
	if op.State != api.Processing || len(op.Withheld) != 1 || op.Targets[0].Reason != api.ReasonVolumeUnresolved {
		t.Fatalf("the operation is %+v, want PROCESSING while storage is withheld", op)
	}
	w.Put(lcmtest.Spec(lcmtest.FullTopology())) // the topology that was wrong is given once more
	if op = w.Operation(op.ID); op.State != api.Processing {
		t.Errorf("the operation is %s before the new document is applied", op.State)
	}
	w.Converge(lcmtest.StorageServer)
	if op = w.Operation(op.ID); op.State != api.Completed {
		t.Errorf("the operation is %+v, want COMPLETED", op)
	}
}

func TestTheDeadlineNamesWhatEachTargetWaitsFor(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	r.DeadlineSeconds = 600
	op := w.Post(r)
	w.Converge(lcmtest.MasterServer, lcmtest.StorageServer)
	w.Clock.Advance(599 * time.Second)
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Operation(op.ID); got.State != api.Processing {
		t.Fatalf("the operation is %s a second before its deadline", got.State)
	}
	w.Clock.Advance(time.Second)
	w.Must(w.LCM.Sweep(w.Ctx))
	failed := w.Operation(op.ID)
	if failed.State != api.Failed {
		t.Fatalf("the operation is %+v after its deadline", failed)
	}
	w.WantRefused(failed.Error, api.ProblemDeadline, "10m0s", "worker ("+lcmtest.WorkerServer+"): NotEnrolled")
	if strings.Contains(failed.Error.Detail, lcmtest.MasterServer) {
		t.Errorf("the error names a node that was ready: %s", failed.Error.Detail)
	}

	// A retry finds nothing new and nothing changed, and still waits for the worker.
	retry := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	if retry.State != api.Processing {
		t.Fatalf("the retry is %+v, want PROCESSING", retry)
	}
	w.Converge(lcmtest.WorkerServer)
	if got := w.Operation(retry.ID); got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	if got := w.Operation(op.ID); got.State != api.Failed {
		t.Errorf("the first attempt became %s", got.State)
	}
}

func TestARetryOfAScaleOutWaitsForTheServersOfTheFirstAttempt(t *testing.T) {
	w := lcmtest.Instantiated(t)
	grown := lcmtest.FullTopology()
	second := lcmtest.UUID(3, 2)
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "worker"))
	op := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	if want := []string{second}; !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Fatalf("targets %v, want the new worker alone", op.Targets)
	}
	w.Clock.Advance(31 * time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	for range 2 { // Tacker's retry sends no topology that is new any more
		op = w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
		if want := []string{second}; op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
			t.Fatalf("the retry is %+v, want PROCESSING for the new worker", op)
		}
		w.Clock.Advance(31 * time.Minute)
		w.Must(w.LCM.Sweep(w.Ctx))
	}
	w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second)
	if got := w.Operations()[0]; got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	// The next operation does not wait for what is settled.
	if op = w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, grown)); op.State != api.Completed || len(op.Targets) != 0 {
		t.Errorf("an operation without new servers is %+v, want COMPLETED without targets", op)
	}
}

func TestServersThatAPutBroughtAreNewToTheNextEnd(t *testing.T) {
	w := lcmtest.Instantiated(t)
	grown := lcmtest.FullTopology()
	second := lcmtest.UUID(3, 2)
	grown.Servers = append(grown.Servers, lcmtest.Server(second, "worker"))
	w.Put(lcmtest.Spec(grown))
	op := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	if want := []string{second}; op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Errorf("the operation is %+v, want PROCESSING for the new worker", op)
	}
}

func TestTheIdempotencyKey(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	r := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	r.IdempotencyKey = "occurrence-1"
	first := w.Post(r)
	if joined := w.Post(r); joined.ID != first.ID {
		t.Errorf("the same key made operation %s while %s is in progress", joined.ID, first.ID)
	}
	w.Clock.Advance(time.Hour)
	w.Must(w.LCM.Sweep(w.Ctx))
	anew := w.Post(r)
	if anew.ID == first.ID || anew.State != api.Processing {
		t.Errorf("after a failure the key gives %+v, want a new attempt", anew)
	}
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	if done := w.Post(r); done.ID != anew.ID || done.State != api.Completed {
		t.Errorf("after a success the key gives %+v, want it", done)
	}
	other := lcmtest.Request(api.Terminate, api.PhaseEnd)
	other.IdempotencyKey = r.IdempotencyKey
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, other)
	w.WantRefused(err, api.ProblemConflict, "occurrence-1", "(INSTANTIATE) of this instance")
	if got := len(w.Operations()); got != 2 {
		t.Errorf("%d operations on record, want 2", got)
	}
}

func TestOneOperationAtATime(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
	for _, r := range []api.OperationRequest{lcmtest.Request(api.Instantiate, api.PhaseStart), lcmtest.Request(api.Instantiate, api.PhaseEnd)} {
		_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, r)
		w.WantRefused(err, api.ProblemOperationInProgress, "operation "+op.ID+" (INSTANTIATE), since ")
		w.WantActions(err, api.Action{Call: api.CallGetOperation, ID: op.ID}, api.Action{Call: api.CallCancelOperation, ID: op.ID})
	}
}

func TestAFailedStackFailsTheEndWithHeatsReason(t *testing.T) {
	w := lcmtest.Instantiated(t)
	version := w.Instance().DesiredVersion
	broken := lcmtest.TopologyOf(lcmtest.Server(lcmtest.MasterServer, "master"))
	broken.StackStatus, broken.StackStatusReason = "UPDATE_FAILED", "resources.storage_server: No valid host was found"
	op := w.Post(lcmtest.Heal(api.PhaseEnd, broken, lcmtest.StorageServer))
	if op.State != api.Failed {
		t.Fatalf("the operation is %+v, want FAILED", op)
	}
	w.WantRefused(op.Error, api.ProblemStackFailed, "UPDATE_FAILED", "No valid host was found")
	if got := w.Instance(); got.DesiredVersion != version || len(got.Nodes) != 3 {
		t.Errorf("the topology of a failed stack is in force: version %d, nodes %v", got.DesiredVersion, got.Nodes)
	}
	if n := w.Node(lcmtest.StorageServer); n.State != api.NodeEnrolled {
		t.Errorf("the storage server is %s", n.State)
	}
}

// Heat has put back what was there before: nothing of what the END is about.
func TestAStackThatWasRolledBackFailsTheEnd(t *testing.T) {
	w, c := lcmtest.Created(t)
	c.SetStatus(lcmtest.StackOne, "ROLLBACK_COMPLETE", "Stack rollback completed successfully")
	op := w.Post(lcmtest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	w.WantRefused(op.Error, api.ProblemStackFailed, "ROLLBACK_COMPLETE")
	c.SetStatus(lcmtest.StackOne, "ROLLBACK_IN_PROGRESS", "")
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	w.WantRefused(err, api.ProblemStackInProgress)
}

// A quota, or a port that Neutron refuses, ends a stack before it has any server.
func TestAStackThatFailedBeforeItHadServers(t *testing.T) {
	for name, made := range map[string]*api.Topology{"without servers": lcmtest.TopologyOf(), "with another stack's server": lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(5, 1), "master"))} {
		t.Run(name, func(t *testing.T) {
			w, c := lcmtest.InCloud(t)
			_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.UUID(8, 8), lcmtest.Spec(lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(5, 1), "master"))))
			w.Must(err)
			w.Put(lcmtest.StackSpec(lcmtest.StackOne))
			w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
			c.Stacks[lcmtest.StackOne] = made
			c.SetStatus(lcmtest.StackOne, "CREATE_FAILED", "Quota exceeded for resources: ['port']")
			op := w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd))
			w.WantRefused(op.Error, api.ProblemStackFailed, "Quota exceeded")
			if i := w.Instance(); op.State != api.Failed || i.Topology != nil {
				t.Errorf("the operation is %+v, the topology %+v", op, i.Topology)
			}
		})
	}
}

func TestFilesAreRequiredOnceForStartAndEnd(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	for _, phase := range []api.OperationPhase{api.PhaseStart, api.PhaseEnd} {
		_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, phase))
		w.WantRefused(err, api.ProblemFilesMissing, "/additionalParams/k8s_cluster_installation_param/script_path", lcmtest.ScriptFile+" is missing")
	}
	w.Upload(lcmtest.ScriptFile, "")
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, lcmtest.ScriptFile+" is empty")
	if i := w.Instance(); len(i.MissingFiles) != 0 || len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("missing %v, files %+v; want the file with its fault", i.MissingFiles, i.Files)
	}
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	other := lcmtest.Spec(nil)
	other.AdditionalParams = []byte(strings.Replace(string(other.AdditionalParams), lcmtest.ScriptFile, "Scripts/other.sh", 1))
	w.Put(other)
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseEnd)) // its START has completed
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	_, err = w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseEnd)) // an END without START
	w.WantRefused(err, api.ProblemFilesMissing, "Scripts/other.sh")
	w.Post(lcmtest.Request(api.Terminate, api.PhaseStart)) // needs no files
}

func TestTwoManifestsMayNotRegisterOneVolume(t *testing.T) {
	w := lcmtest.New(t)
	withPVs := lcmtest.Spec(lcmtest.FullTopology())
	withPVs.AdditionalParams = []byte(strings.Replace(string(withPVs.AdditionalParams), `"storage_server": {`,
		`"pv_registration_params": [{"pv_manifest_file_path": "pv1.yaml", "nfs_server_cp": "storage_server_CP"},
		{"pv_manifest_file_path": "pv2.yaml", "nfs_server_cp": "storage_server_CP"}], "storage_server": {`, 1))
	w.Put(withPVs)
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	const manifest = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv1}\n" +
		"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], nfs: {server: 0.0.0.0, path: /volume/nfs/pv1}}\n"
	w.Upload("pv1.yaml", manifest)
	w.Upload("pv2.yaml", manifest)
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, "/pv_registration_params/1/pv_manifest_file_path", `PersistentVolume "pv1"`)
	w.Upload("pv2.yaml", strings.Replace(manifest, "name: pv1", "name: pv2", 1))
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
}

func TestAFileMayComeBeforeItsInstance(t *testing.T) {
	w := lcmtest.New(t)
	w.Upload(lcmtest.ScriptFile, "")
	if i := w.Put(lcmtest.Spec(lcmtest.FullTopology())); len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("files %+v, want the one there is with its fault", i.Files)
	}
}

func TestAFileWhoseCheckWasCutOffBlocksUntilItIsChecked(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
	key := store.FileKey(lcmtest.InstanceID, lcmtest.ScriptFile)
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		f, _, err := tx.Files().Get(key)
		w.Must(err)
		f.ValidatedFor = "" // what an upload leaves that dies before the check
		return tx.Files().Put(key, f)
	}))
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, "still being checked")
	w.Restart()
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
}

func TestOperationsAreListedNewestFirst(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.Clock.Advance(time.Minute)
	w.Post(lcmtest.Request(api.Terminate, api.PhaseStart))
	var got []string
	for _, op := range w.Operations() {
		got = append(got, string(op.Operation)+" "+string(op.Phase))
	}
	if want := []string{"TERMINATE START", "INSTANTIATE END"}; !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	for _, sequence := range []int64{0, 3, -1} {
		_, err := w.LCM.Operations.GetOperation(w.Ctx, lcmtest.InstanceID, sequence)
		w.WantRefused(err, api.ProblemNotFound)
	}
	_, err := w.LCM.Operations.ListOperations(w.Ctx, lcmtest.UUID(7, 7))
	w.WantRefused(err, api.ProblemNotFound)
}
