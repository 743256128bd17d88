package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestARetryOfAScaleOutWaitsForTheServersOfTheFirstAttempt(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	grown := lifecycletest.FullTopology()
	second := lifecycletest.UUID(3, 2)
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "worker"))
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	if want := []string{second}; !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Fatalf("targets %v, want the new worker alone", op.Targets)
	}
	w.Clock.Advance(31 * time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	for range 2 { // Tacker's retry sends no topology that is new any more
		op = w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
		if want := []string{second}; op.State != api.Processing || !slices.Equal(completion.TargetIDs(op.Targets), want) {
			t.Fatalf("the retry is %+v, want PROCESSING for the new worker", op)
		}
		w.Clock.Advance(31 * time.Minute)
		w.Must(w.Lifecycle.Sweep(w.Ctx))
	}
	w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown))
	w.Converge(second)
	if got := w.Operations()[0]; got.State != api.Completed {
		t.Errorf("the retry is %+v, want COMPLETED", got)
	}
	// The next operation does not wait for what is settled.
	if op = w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, grown)); op.State != api.Completed || len(op.Targets) != 0 {
		t.Errorf("an operation without new servers is %+v, want COMPLETED without targets", op)
	}
}

func TestServersThatAPutBroughtAreNewToTheNextEnd(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	grown := lifecycletest.FullTopology()
	second := lifecycletest.UUID(3, 2)
	grown.Servers = append(grown.Servers, lifecycletest.Server(second, "worker"))
	w.Put(lifecycletest.Spec(grown))
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	if want := []string{second}; op.State != api.Processing || !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Errorf("the operation is %+v, want PROCESSING for the new worker", op)
	}
}

func TestTheIdempotencyKey(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.IdempotencyKey = "occurrence-1"
	first := w.Post(r)
	if joined := w.Post(r); joined.ID != first.ID {
		t.Errorf("the same key made operation %s while %s is in progress", joined.ID, first.ID)
	}
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	anew := w.Post(r)
	if anew.ID == first.ID || anew.State != api.Processing {
		t.Errorf("after a failure the key gives %+v, want a new attempt", anew)
	}
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	if done := w.Post(r); done.ID != anew.ID || done.State != api.Completed {
		t.Errorf("after a success the key gives %+v, want it", done)
	}
	other := lifecycletest.Request(api.Terminate, api.PhaseEnd)
	other.IdempotencyKey = r.IdempotencyKey
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, other)
	w.WantRefused(err, api.ProblemConflict, "occurrence-1", "(INSTANTIATE) of this instance")
	if got := len(w.Operations()); got != 2 {
		t.Errorf("%d operations on record, want 2", got)
	}
}

func TestOneOperationAtATime(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	for _, r := range []api.OperationRequest{lifecycletest.Request(api.Instantiate, api.PhaseStart), lifecycletest.Request(api.Instantiate, api.PhaseEnd)} {
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
		w.WantRefused(err, api.ProblemOperationInProgress, "operation "+op.ID+" (INSTANTIATE), since ")
		w.WantActions(err, api.Action{Call: api.CallGetOperation, ID: op.ID}, api.Action{Call: api.CallCancelOperation, ID: op.ID})
	}
}

func TestAFailedStackFailsTheEndWithHeatsReason(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	version := w.Instance().DesiredVersion
	broken := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"))
	broken.StackStatus, broken.StackStatusReason = "UPDATE_FAILED", "resources.storage_server: No valid host was found"
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, broken, lifecycletest.StorageServer))
	if op.State != api.Failed {
		t.Fatalf("the operation is %+v, want FAILED", op)
	}
	w.WantRefused(op.Error, api.ProblemStackFailed, "UPDATE_FAILED", "No valid host was found")
	if got := w.Instance(); got.DesiredVersion != version || len(got.Nodes) != 3 {
		t.Errorf("the topology of a failed stack is in force: version %d, nodes %v", got.DesiredVersion, got.Nodes)
	}
	if n := w.Node(lifecycletest.StorageServer); n.State != api.NodeEnrolled {
		t.Errorf("the storage server is %s", n.State)
	}
}

// Heat has put back what was there before: nothing of what the END is about.
func TestAStackThatWasRolledBackFailsTheEnd(t *testing.T) {
	w, c := lifecycletest.Created(t)
	c.SetStatus(lifecycletest.StackOne, "ROLLBACK_COMPLETE", "Stack rollback completed successfully")
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	w.WantRefused(op.Error, api.ProblemStackFailed, "ROLLBACK_COMPLETE")
	c.SetStatus(lifecycletest.StackOne, "ROLLBACK_IN_PROGRESS", "")
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, nil))
	w.WantRefused(err, api.ProblemStackInProgress)
}

// A quota, or a port that Neutron refuses, ends a stack before it has any server.
func TestAStackThatFailedBeforeItHadServers(t *testing.T) {
	for name, made := range map[string]*api.Topology{"without servers": lifecycletest.TopologyOf(), "with another stack's server": lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(5, 1), "master"))} {
		t.Run(name, func(t *testing.T) {
			w, c := lifecycletest.InCloud(t)
			_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.UUID(8, 8), lifecycletest.Spec(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(5, 1), "master"))))
			w.Must(err)
			w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
			w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
			c.Stacks[lifecycletest.StackOne] = made
			c.SetStatus(lifecycletest.StackOne, "CREATE_FAILED", "Quota exceeded for resources: ['port']")
			op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
			w.WantRefused(op.Error, api.ProblemStackFailed, "Quota exceeded")
			if i := w.Instance(); op.State != api.Failed || i.Topology != nil {
				t.Errorf("the operation is %+v, the topology %+v", op, i.Topology)
			}
		})
	}
}

func TestFilesAreRequiredOnceForStartAndEnd(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	for _, phase := range []api.OperationPhase{api.PhaseStart, api.PhaseEnd} {
		_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, phase))
		w.WantRefused(err, api.ProblemFilesMissing, "/additionalParams/k8s_cluster_installation_param/script_path", lifecycletest.ScriptFile+" is missing")
	}
	w.Upload(lifecycletest.ScriptFile, "")
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, lifecycletest.ScriptFile+" is empty")
	if i := w.Instance(); len(i.MissingFiles) != 0 || len(i.Files) != 1 || len(i.Files[0].Faults) != 1 {
		t.Errorf("missing %v, files %+v; want the file with its fault", i.MissingFiles, i.Files)
	}
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	other := lifecycletest.Spec(nil)
	other.AdditionalParams = []byte(strings.Replace(string(other.AdditionalParams), lifecycletest.ScriptFile, "Scripts/other.sh", 1))
	w.Put(other)
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd)) // its START has completed
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseEnd)) // an END without START
	w.WantRefused(err, api.ProblemFilesMissing, "Scripts/other.sh")
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart)) // needs no files
}

func TestOperationsAreListedNewestFirst(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Clock.Advance(time.Minute)
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
	var got []string
	for _, op := range w.Operations() {
		got = append(got, string(op.Operation)+" "+string(op.Phase))
	}
	if want := []string{"TERMINATE START", "INSTANTIATE END"}; !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	for _, sequence := range []int64{0, 3, -1} {
		_, err := w.Lifecycle.Operations.GetOperation(w.Ctx, lifecycletest.InstanceID, sequence)
		w.WantRefused(err, api.ProblemNotFound)
	}
	_, err := w.Lifecycle.Operations.ListOperations(w.Ctx, lifecycletest.UUID(7, 7))
	w.WantRefused(err, api.ProblemNotFound)
}
