package tx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/completion"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// many is more operations or versions than are kept.
var many = tx.Kept.Last + 5

// versions are the numbers of the versions on record.
func versions(w *lifecycletest.World) (list []int64) {
	w.Helper()
	w.Must(w.Store.View(func(tx *store.Tx) error {
		all, err := tx.Desired().Prefix(store.InstancePrefix(lifecycletest.InstanceID))
		for _, d := range all {
			list = append(list, d.Version)
		}
		return err
	}))
	return list
}

func TestTheLastOperationsAndVersionsAreKept(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	for i := range many {
		w.Put(lifecycletest.NumberedSpec(i + 100))
		w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	}
	operations := w.Operations()
	if first := operations[len(operations)-1].Sequence; len(operations) != tx.Kept.Last || first != int64(many-tx.Kept.Last+1) {
		t.Errorf("%d operations are on record from %d on, want the last %d", len(operations), first, tx.Kept.Last)
	}
	if v := versions(w); len(v) != tx.Kept.Last || v[len(v)-1] != int64(many+1) {
		t.Errorf("the versions %v are on record, want the last %d", v, tx.Kept.Last)
	}
	_, err := w.Lifecycle.Operations.GetOperation(w.Ctx, lifecycletest.InstanceID, 1)
	w.WantRefused(err, api.ProblemNotFound, "operation "+lifecycletest.InstanceID+"/1 ", "no longer on record", "its last 20 are kept", "7 days")
}

func TestAStoreWithAWholePastIsCutAtTheNextChange(t *testing.T) {
	w := lifecycletest.New(t)
	w.Keep(tx.Retention{Last: 1000, Key: tx.Kept.Key}) // as an older controller
	w.Put(lifecycletest.Spec(nil))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	for i := range 100 {
		w.Put(lifecycletest.NumberedSpec(i + 100))
		w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	}
	w.Keep(tx.Kept)
	if n := len(w.Operations()); n != 100 {
		t.Fatalf("%d operations are on record before, want 100", n)
	}
	w.Put(lifecycletest.NumberedSpec(1))
	if o, v := len(w.Operations()), len(versions(w)); o != tx.Kept.Last || v != tx.Kept.Last {
		t.Errorf("%d operations and %d versions are on record after a PUT, want %d of each", o, v, tx.Kept.Last)
	}
}

func TestAnEndIsMeasuredAgainstTheEndBeforeItHoweverLongAgo(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, lifecycletest.GrownTopology()))
	w.Converge(lifecycletest.SecondWorker)
	for i := range many {
		w.Put(lifecycletest.NumberedSpec(i + 100))
		w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
	}
	third := lifecycletest.UUID(3, 3)
	more := lifecycletest.GrownTopology()
	more.Servers = append(more.Servers, lifecycletest.Server(third, "worker"))
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, more))
	if want := []string{third}; !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Errorf("the END waits for %v, want the new worker alone", completion.TargetIDs(op.Targets))
	}
}

func TestARetryTakesUpWhatItsFailedAttemptHasLeftHoweverLongAgo(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	extended := lifecycletest.FullTopology()
	extended.Volumes[0].SizeBytes *= 2
	retry := lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, extended)
	w.Post(retry)
	w.Clock.Advance(time.Hour) // the storage server does not report what it made of that
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	for range many {
		broken := retry
		stack := *extended
		stack.StackStatus = "UPDATE_FAILED"
		broken.Topology = &stack
		if op := w.Post(broken); op.State != api.Failed {
			t.Fatalf("an END of a failed stack is %+v", op)
		}
	}
	op := w.Post(retry)
	if want := []string{lifecycletest.StorageServer}; op.State != api.Processing || !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Errorf("the retry is %s and waits for %v, want the storage server, which the first attempt has changed", op.State, completion.TargetIDs(op.Targets))
	}
}

// What the attempt that was refused for its stack was measured against is what the next
// END is measured against, also of another kind.
func TestAnEndIsMeasuredLikeTheLastOneThatItsStackFailedHoweverLongAgo(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.GrownTopology()))
	w.Clock.Advance(time.Hour) // the second worker does not come
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	broken := lifecycletest.GrownTopology()
	broken.StackStatus = "UPDATE_FAILED"
	w.Post(lifecycletest.Heal(api.PhaseEnd, broken))
	for range many {
		w.Post(lifecycletest.Heal(api.PhaseStart, nil))
	}
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, lifecycletest.GrownTopology()))
	if want := []string{lifecycletest.SecondWorker}; !slices.Equal(completion.TargetIDs(op.Targets), want) {
		t.Errorf("the END waits for %v, want the second worker", completion.TargetIDs(op.Targets))
	}
}

func TestAStartGoesBackToWhatWasBeforeItHoweverOftenItWasRepeated(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Put(lifecycletest.NumberedSpec(1)) // what the ENDs are measured against is another version
	before := w.Instance()
	for i := range many {
		start := lifecycletest.ShrinkingStart()
		start.Topology.Servers[1].ConnectionPoints[0].Addresses = []string{fmt.Sprintf("10.10.1.%d", i+1)}
		w.Post(start)
	}
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Instance(); got.DesiredVersion != before.DesiredVersion || len(got.Nodes) != 3 {
		t.Errorf("version %d is in force with the nodes %v, want %d and all three", got.DesiredVersion, got.Nodes, before.DesiredVersion)
	}
}

func TestAStartIsTakenBackHoweverOftenItsEndHasFailed(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, lifecycletest.ShrinkingStart().Topology))
	broken := lifecycletest.FullTopology()
	broken.StackStatus = "UPDATE_FAILED"
	for range many {
		w.Post(lifecycletest.Heal(api.PhaseEnd, broken))
	}
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Operation(start.ID); got.State != api.Failed || len(w.Instance().Nodes) != 3 {
		t.Errorf("the START is %+v and the nodes are %v, want it taken back", got, w.Instance().Nodes)
	}
}

func TestAnEndNeedsNoFilesThatItsStartHadHoweverManyFollowIt(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.Post(lifecycletest.Heal(api.PhaseStart, nil))
	for range many {
		w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	}
	other := lifecycletest.Spec(nil)
	other.AdditionalParams = []byte(strings.Replace(string(other.AdditionalParams), lifecycletest.ScriptFile, "Scripts/other.sh", 1))
	w.Put(other)
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology()))
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology())) // its newest of the kind is no START
	w.WantRefused(err, api.ProblemFilesMissing, "Scripts/other.sh")
}

func TestAServerThatIsToLeaveIsNotAddedHoweverManyFollowIt(t *testing.T) {
	w, c := lifecycletest.Created(t)
	w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, lifecycletest.GrownTopology()))
	w.Clock.Advance(time.Hour) // it does not come
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	for _, leaves := range []string{lifecycletest.SecondWorker, lifecycletest.WorkerServer} {
		start := lifecycletest.Scale(api.ScaleIn, api.PhaseStart, lifecycletest.FullTopology())
		start.VnfcInstanceIds = []string{leaves}
		w.Post(start)
	}
	for range many {
		w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	}
	c.Stacks[lifecycletest.StackOne] = lifecycletest.GrownTopology() // Heat has it still
	var err error
	if asked := c.Asks(func() { err = w.Enroll(lifecycletest.SecondWorker) }); asked != 1 {
		t.Errorf("the stack was observed %d times, want once", asked)
	}
	w.WantRefused(err, api.ProblemServerNotExpected)
}

func TestAnIdempotencyKeyIsGoodForAWeek(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer)
	r.IdempotencyKey = "occurrence-1"
	first := w.Post(r)
	others := func() {
		for range many {
			w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
		}
	}
	others()
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology())) // no START is open, and no other one of its kind is newer
	w.Post(lifecycletest.Heal(api.PhaseStart, nil))
	w.Clock.Advance(tx.Kept.Key - time.Second)
	others()
	if again := w.Post(r); again.ID != first.ID {
		t.Errorf("before a week is over the key gives operation %s, want %s", again.ID, first.ID)
	}
	w.Clock.Advance(time.Second)
	others()
	if anew := w.Post(r); anew.ID == first.ID || anew.State != api.Completed {
		t.Errorf("after a week the key gives %+v, want another operation", anew)
	}
}

// Which END came after a START is known as long as its key is.
func TestAKeyBeginsAnotherStartHoweverLongAgoItsEndHasFailed(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer)
	r.IdempotencyKey = "occurrence-1"
	first := w.Post(r)
	broken := lifecycletest.FullTopology()
	broken.StackStatus = "UPDATE_FAILED"
	w.Post(lifecycletest.Heal(api.PhaseEnd, broken))
	w.Post(lifecycletest.Heal(api.PhaseStart, nil))             // nor is it the newest of its kind,
	w.Post(lifecycletest.Request(api.ModifyInfo, api.PhaseEnd)) // or the last END
	for range many {
		w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	}
	if anew := w.Post(r); anew.ID == first.ID {
		t.Errorf("the key gives %+v, want another attempt", anew)
	}
}
