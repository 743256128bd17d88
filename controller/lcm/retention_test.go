package lcm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// many is more operations or versions than are kept.
var many = tx.Kept.Last + 5

var secondWorker = uuid(3, 2)

// versions are the numbers of the versions on record.
func (w *world) versions() (list []int64) {
	w.Helper()
	w.must(w.Store.View(func(tx *store.Tx) error {
		all, err := tx.Desired().Prefix(store.InstancePrefix(instanceID))
		for _, d := range all {
			list = append(list, d.Version)
		}
		return err
	}))
	return list
}

// exported is the instance with other parameters for each number.
func exported(to int) api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: parameters(fmt.Sprintf("10.%d.0.0/24", to))}
}

func TestTheLastOperationsAndVersionsAreKept(t *testing.T) {
	w := newWorld(t)
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	for i := range many {
		w.put(exported(i + 100))
		w.post(request(api.Instantiate, api.PhaseStart))
	}
	operations := w.operations()
	if first := operations[len(operations)-1].Sequence; len(operations) != tx.Kept.Last || first != int64(many-tx.Kept.Last+1) {
		t.Errorf("%d operations are on record from %d on, want the last %d", len(operations), first, tx.Kept.Last)
	}
	if v := w.versions(); len(v) != tx.Kept.Last || v[len(v)-1] != int64(many+1) {
		t.Errorf("the versions %v are on record, want the last %d", v, tx.Kept.Last)
	}
	_, err := w.LCM.Operations.GetOperation(w.ctx, instanceID, 1)
	w.refused(err, api.ProblemNotFound, "operation "+instanceID+"/1 ", "no longer on record", "its last 20 are kept", "7 days")
}

func TestAStoreWithAWholePastIsCutAtTheNextChange(t *testing.T) {
	w := newWorld(t)
	w.keeps(tx.Retention{Last: 1000, Key: tx.Kept.Key}) // as an older controller
	w.put(spec(nil))
	w.upload(script, "#!/bin/sh\n")
	for i := range 100 {
		w.put(exported(i + 100))
		w.post(request(api.Instantiate, api.PhaseStart))
	}
	w.keeps(tx.Kept)
	if n := len(w.operations()); n != 100 {
		t.Fatalf("%d operations are on record before, want 100", n)
	}
	w.put(exported(1))
	if o, v := len(w.operations()), len(w.versions()); o != tx.Kept.Last || v != tx.Kept.Last {
		t.Errorf("%d operations and %d versions are on record after a PUT, want %d of each", o, v, tx.Kept.Last)
	}
}

// grown is the topology with a second worker.
func grown() *api.Topology {
	t := full()
	t.Servers = append(t.Servers, server(secondWorker, "worker"))
	return t
}

func TestAnEndIsMeasuredAgainstTheEndBeforeItHoweverLongAgo(t *testing.T) {
	w := instantiated(t)
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown()))
	w.converge(secondWorker)
	for i := range many {
		w.put(exported(i + 100))
		w.post(request(api.Terminate, api.PhaseStart))
	}
	third := uuid(3, 3)
	more := grown()
	more.Servers = append(more.Servers, server(third, "worker"))
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, more))
	if want := []string{third}; !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Errorf("the END waits for %v, want the new worker alone", reconcile.TargetIDs(op.Targets))
	}
}

func TestARetryTakesUpWhatItsFailedAttemptHasLeftHoweverLongAgo(t *testing.T) {
	w := instantiated(t)
	extended := full()
	extended.Volumes[0].SizeBytes *= 2
	retry := scale(api.ScaleOut, api.PhaseEnd, extended)
	w.post(retry)
	w.Clock.Advance(time.Hour) // the storage server does not report what it made of that
	w.must(w.LCM.Sweep(w.ctx))
	for range many {
		broken := retry
		stack := *extended
		stack.StackStatus = "UPDATE_FAILED"
		broken.Topology = &stack
		if op := w.post(broken); op.State != api.Failed {
			t.Fatalf("an END of a failed stack is %+v", op)
		}
	}
	op := w.post(retry)
	if want := []string{storageServer}; op.State != api.Processing || !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Errorf("the retry is %s and waits for %v, want the storage server, which the first attempt has changed", op.State, reconcile.TargetIDs(op.Targets))
	}
}

// What the attempt that was refused for its stack was measured against is what the next
// END is measured against, also of another kind.
func TestAnEndIsMeasuredLikeTheLastOneThatItsStackFailedHoweverLongAgo(t *testing.T) {
	w := instantiated(t)
	w.post(heal(api.PhaseEnd, grown()))
	w.Clock.Advance(time.Hour) // the second worker does not come
	w.must(w.LCM.Sweep(w.ctx))
	broken := grown()
	broken.StackStatus = "UPDATE_FAILED"
	w.post(heal(api.PhaseEnd, broken))
	for range many {
		w.post(heal(api.PhaseStart, nil))
	}
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, grown()))
	if want := []string{secondWorker}; !slices.Equal(reconcile.TargetIDs(op.Targets), want) {
		t.Errorf("the END waits for %v, want the second worker", reconcile.TargetIDs(op.Targets))
	}
}

func TestAStartGoesBackToWhatWasBeforeItHoweverOftenItWasRepeated(t *testing.T) {
	w := instantiated(t)
	w.put(exported(1)) // what the ENDs are measured against is another version
	before := w.instance()
	for i := range many {
		start := shrunkStart()
		start.Topology.Servers[1].ConnectionPoints[0].Addresses = []string{fmt.Sprintf("10.10.1.%d", i+1)}
		w.post(start)
	}
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.instance(); got.DesiredVersion != before.DesiredVersion || len(got.Nodes) != 3 {
		t.Errorf("version %d is in force with the nodes %v, want %d and all three", got.DesiredVersion, got.Nodes, before.DesiredVersion)
	}
}

func TestAStartIsTakenBackHoweverOftenItsEndHasFailed(t *testing.T) {
	w := instantiated(t)
	start := w.post(heal(api.PhaseStart, shrunkStart().Topology))
	broken := full()
	broken.StackStatus = "UPDATE_FAILED"
	for range many {
		w.post(heal(api.PhaseEnd, broken))
	}
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.operation(start.ID); got.State != api.Failed || len(w.instance().Nodes) != 3 {
		t.Errorf("the START is %+v and the nodes are %v, want it taken back", got, w.instance().Nodes)
	}
}

func TestAnEndNeedsNoFilesThatItsStartHadHoweverManyFollowIt(t *testing.T) {
	w := instantiated(t)
	w.post(heal(api.PhaseStart, nil))
	for range many {
		w.post(request(api.Instantiate, api.PhaseStart))
	}
	other := spec(nil)
	other.AdditionalParams = []byte(strings.Replace(string(other.AdditionalParams), script, "Scripts/other.sh", 1))
	w.put(other)
	w.post(heal(api.PhaseEnd, full()))
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseEnd, full())) // its newest of the kind is no START
	w.refused(err, api.ProblemFilesMissing, "Scripts/other.sh")
}

func TestAServerThatIsToLeaveIsNotAddedHoweverManyFollowIt(t *testing.T) {
	w, c := created(t)
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown()))
	w.Clock.Advance(time.Hour) // it does not come
	w.must(w.LCM.Sweep(w.ctx))
	for _, leaves := range []string{secondWorker, workerServer} {
		start := scale(api.ScaleIn, api.PhaseStart, full())
		start.VnfcInstanceIds = []string{leaves}
		w.post(start)
	}
	for range many {
		w.post(request(api.Instantiate, api.PhaseStart))
	}
	c.stacks[stackOne] = grown() // Heat has it still
	var err error
	if asked := c.asks(func() { err = w.enroll(secondWorker) }); asked != 1 {
		t.Errorf("the stack was observed %d times, want once", asked)
	}
	w.refused(err, api.ProblemServerNotExpected)
}

func TestAnIdempotencyKeyIsGoodForAWeek(t *testing.T) {
	w := instantiated(t)
	r := heal(api.PhaseStart, nil, workerServer)
	r.IdempotencyKey = "occurrence-1"
	first := w.post(r)
	others := func() {
		for range many {
			w.post(request(api.Instantiate, api.PhaseStart))
		}
	}
	others()
	w.post(heal(api.PhaseEnd, full())) // no START is open, and no other one of its kind is newer
	w.post(heal(api.PhaseStart, nil))
	w.Clock.Advance(tx.Kept.Key - time.Second)
	others()
	if again := w.post(r); again.ID != first.ID {
		t.Errorf("before a week is over the key gives operation %s, want %s", again.ID, first.ID)
	}
	w.Clock.Advance(time.Second)
	others()
	if anew := w.post(r); anew.ID == first.ID || anew.State != api.Completed {
		t.Errorf("after a week the key gives %+v, want another operation", anew)
	}
}

// Which END came after a START is known as long as its key is.
func TestAKeyBeginsAnotherStartHoweverLongAgoItsEndHasFailed(t *testing.T) {
	w := instantiated(t)
	r := heal(api.PhaseStart, nil, workerServer)
	r.IdempotencyKey = "occurrence-1"
	first := w.post(r)
	broken := full()
	broken.StackStatus = "UPDATE_FAILED"
	w.post(heal(api.PhaseEnd, broken))
	w.post(heal(api.PhaseStart, nil))             // nor is it the newest of its kind,
	w.post(request(api.ModifyInfo, api.PhaseEnd)) // or the last END
	for range many {
		w.post(request(api.Instantiate, api.PhaseStart))
	}
	if anew := w.post(r); anew.ID == first.ID {
		t.Errorf("the key gives %+v, want another attempt", anew)
	}
}
