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

func TestHealOfTheStorageServerWithdrawsItsVolumes(t *testing.T) {
	w := lifecycletest.Registered(t)
	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	if s := w.Section(lifecycletest.MasterServer); start.State != api.Processing || s.State != api.PersistentVolumesAbsent || s.Servers[0] != "10.10.0.5" {
		t.Fatalf("HEAL START is %+v, the section %+v", start, s)
	}
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
	w.WantRefused(err, api.ProblemOperationInProgress, "HEAL START")
	w.Restart()
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionTrue, api.ReasonRegistered, "")
	if got := w.Operation(start.ID); got.State != api.Processing {
		t.Fatalf("HEAL START is %s on the word of a document that is no more", got.State)
	}
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionTrue, api.ReasonAbsent, "")
	if got := w.Operation(start.ID); got.State != api.Completed {
		t.Fatalf("HEAL START is %+v, want COMPLETED", got)
	}
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
	if s := w.Section(lifecycletest.MasterServer); s != nil {
		t.Fatalf("before the new storage server serves the section is %+v", s)
	}
	w.Converge(lifecycletest.UUID(1, 2), lifecycletest.MasterServer)
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Fatalf("after it the section is %+v", s)
	}
	w.Converge(lifecycletest.MasterServer)
	if got := w.Operation(end.ID); got.State != api.Completed {
		t.Fatalf("HEAL END is %+v, want COMPLETED", got)
	}
}

// A retry with a second START finds the first one's withdrawal, and a PUT may
// have come in between. Whatever becomes of the second, nothing stays withdrawn.
func TestASecondStartTakesTheWithdrawalOver(t *testing.T) {
	put := func(w *lifecycletest.World) {
		w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")})
	}
	for name, c := range map[string]struct {
		between func(*lifecycletest.World)
		outcome func(*lifecycletest.World, api.Operation)
	}{
		"and is over at once":                {func(*lifecycletest.World) {}, func(*lifecycletest.World, api.Operation) {}},
		"after a PUT":                        {put, (func(w *lifecycletest.World, _ api.Operation) { w.ReportAbsent() })},
		"after a PUT, with another topology": {put, func(w *lifecycletest.World, _ api.Operation) { w.ReportAbsent() }},
		"after a PUT, and finds a volume in use": {put, func(w *lifecycletest.World, _ api.Operation) {
			w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonInUse, "pv1")
		}},
		"after a PUT, and no agent answers it":      {put, func(*lifecycletest.World, api.Operation) {}},
		"and a restart comes before it is answered": {put, func(w *lifecycletest.World, _ api.Operation) { w.Restart(); w.ReportAbsent() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
			w.ReportAbsent()
			c.between(w)
			r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)
			if strings.Contains(name, "topology") {
				r.Topology = lifecycletest.FullTopology()
				r.Topology.Servers = append(r.Topology.Servers, lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
			}
			second := w.Post(r)
			c.outcome(w, second)
			for range 2 { // its own deadline, and that of waiting for the END
				w.Clock.Advance(time.Hour)
				w.Must(w.Lifecycle.Sweep(w.Ctx))
			}
			w.WantState(second, api.Failed)
			w.Converge(lifecycletest.StorageServer)
			w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
		})
	}
}

// A START of another kind comes instead of the END of the HEAL.
func TestAnotherOperationTakesAWithdrawalBack(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{
		"INSTANTIATE": lifecycletest.Request(api.Instantiate, api.PhaseEnd),
		"SCALE":       lifecycletest.Scale(api.ScaleOut, api.PhaseStart, nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
			_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
			w.WantRefused(err, api.ProblemOperationInProgress, "HEAL START")
			w.ReportAbsent()
			w.Post(r)
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemInterrupted)
			w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
		})
	}
}

func TestTerminateForgetsWhatWasRegistered(t *testing.T) {
	w := lifecycletest.Registered(t)
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer))
	w.ReportAbsent()
	w.WantState(w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd)), api.Completed)
	w.Put(lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), lifecycletest.Server(lifecycletest.UUID(2, 2), "master"), lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))))
	w.WantSection(lifecycletest.UUID(2, 2), "")
	w.Put(lifecycletest.Spec(nil))
	w.Converge(lifecycletest.UUID(1, 2))
	if s := w.Section(lifecycletest.UUID(2, 2)); s != nil {
		t.Errorf("a new cluster that has never had any is asked to remove them: %+v", s)
	}
}

func TestWhoIsHealedDecidesWhatIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		servers   []string
		withdrawn bool
	}{
		"the storage server":            {[]string{lifecycletest.StorageServer}, true},
		"the storage server and others": {[]string{lifecycletest.WorkerServer, lifecycletest.StorageServer}, true},
		"all of them":                   {[]string{lifecycletest.WorkerServer, lifecycletest.StorageServer, lifecycletest.MasterServer}, false},
		"the entire VNF":                {nil, false},
		"the worker":                    {[]string{lifecycletest.WorkerServer}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, c.servers...))
			if (start.State == api.Processing) != c.withdrawn || (w.Section(lifecycletest.MasterServer).State == api.PersistentVolumesAbsent) != c.withdrawn {
				t.Errorf("HEAL START is %s, the section %+v, want it withdrawn: %v", start.State, w.Section(lifecycletest.MasterServer), c.withdrawn)
			}
		})
	}
}

func TestAnEntireHealWithAnotherStackWithdrawsNothing(t *testing.T) {
	w := lifecycletest.Registered(t)
	fresh := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), lifecycletest.Server(lifecycletest.UUID(2, 2), "master"), lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	fresh.StackID = lifecycletest.StackTwo
	w.WantState(w.Post(lifecycletest.Heal(api.PhaseStart, nil)), api.Completed)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, fresh))
	w.WantSection(lifecycletest.MasterServer, "") // it is gone, and speaks for no cluster
	w.Converge(lifecycletest.UUID(2, 2), lifecycletest.UUID(3, 2), lifecycletest.UUID(1, 2))
	w.WantState(end, api.Processing)
	w.Converge(lifecycletest.UUID(2, 2))
	w.WantState(end, api.Completed)
	w.WantSection(lifecycletest.UUID(2, 2), api.PersistentVolumesPresent)
}

func TestAStartNeedsWhoIsToBeAsked(t *testing.T) {
	w := lifecycletest.Registered(t)
	r := lifecycletest.Heal(api.PhaseStart, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	if f := faults(w, err); len(f) != 1 || f[0].Pointer != "/vnfcInstanceIds" || !strings.Contains(f[0].Message, "no longer has it") {
		t.Errorf("a topology without the storage server: %+v", f)
	}
	r.Topology = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	if f := faults(w, err); len(f) != 1 || !strings.Contains(f[0].Message, "has no master that could withdraw") {
		t.Errorf("a topology without a master: %+v", f)
	}
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
}

func TestAKeyJoinsTheStartAtWork(t *testing.T) {
	w := lifecycletest.Registered(t)
	r := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)
	r.IdempotencyKey = "heal-1"
	first := w.Post(r)
	if joined := w.Post(r); joined.ID != first.ID || joined.State != api.Processing {
		t.Errorf("the key gives %+v, want %s in progress", joined, first.ID)
	}
	w.ReportAbsent()
	if done := w.Post(r); done.ID != first.ID || done.State != api.Completed {
		t.Errorf("the key gives %+v, want %s, which is over", done, first.ID)
	}
	w.Clock.Advance(time.Hour)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if anew := w.Post(r); anew.ID == first.ID || anew.State != api.Processing {
		t.Errorf("after it was taken back the key gives %+v, want a new one", anew)
	}
}

// Tacker's retry of a HEAL whose END has failed begins with the START, before Heat replaces
// the storage server once more. The END had the volumes registered again.
func TestAKeyBeginsAnotherStartAfterItsEndHasFailed(t *testing.T) {
	w := lifecycletest.Registered(t)
	r, end := lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer), lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), lifecycletest.StorageServer)
	r.IdempotencyKey, end.IdempotencyKey = "heal-1 START", "heal-1 END"
	first := w.Post(r)
	w.ReportAbsent()
	w.WantState(first, api.Completed)
	op := w.Post(end)
	if again := w.Post(r); again.ID != first.ID || !again.Joined { // late, and the END is in progress
		t.Errorf("the key gives %+v, want %s", again, first.ID)
	}
	if _, err := w.Lifecycle.Operations.CancelOperation(w.Ctx, lifecycletest.InstanceID, op.Sequence, "the driver, at its deadline"); err != nil {
		t.Fatal(err)
	}
	w.Converge(lifecycletest.StorageServer)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)

	second := w.Post(r)
	if second.ID == first.ID || second.State != api.Processing {
		t.Errorf("after its END has failed the key gives %+v, want another attempt", second)
	}
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesAbsent)
	w.ReportAbsent()
	w.WantState(second, api.Completed)
	op = w.Post(end)
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.WantState(op, api.Completed)
	if again := w.Post(r); again.ID != second.ID || !again.Joined {
		t.Errorf("after its END has succeeded the key gives %+v, want %s", again, second.ID)
	}
}

func TestScaleInNamesWhoLeavesAndWithdrawsNothing(t *testing.T) {
	w := lifecycletest.Registered(t)
	start := lifecycletest.Scale(api.ScaleIn, api.PhaseStart, nil)
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, start)
	if f := faults(w, err); len(f) != 1 || f[0].Pointer != "/vnfcInstanceIds" {
		t.Errorf("a SCALE_IN that names no VNFC: %+v", f)
	}
	start.VnfcInstanceIds = []string{"vnfc-" + lifecycletest.WorkerServer}
	w.WantState(w.Post(start), api.Completed)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
}

func TestAHealWithoutAStartWaitsForTheMasterToo(t *testing.T) {
	w := lifecycletest.Registered(t)
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)), lifecycletest.StorageServer))
	w.WantSection(lifecycletest.MasterServer, "")
	if ids := completion.TargetIDs(end.Targets); !slices.Contains(ids, lifecycletest.MasterServer) {
		t.Errorf("targets %v lack the master, from which the volumes are withheld", ids)
	}
	w.Converge(lifecycletest.UUID(1, 2))
	w.WantState(end, api.Processing)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(end, api.Completed)
}

// The master's document is as the first attempt left it, and the retry is not about the
// master: it waits for the master anyway.
func TestARetryWaitsForTheNodesWhoseDocumentsTheFailedAttemptChanged(t *testing.T) {
	w := lifecycletest.Registered(t)
	replacement := lifecycletest.UUID(1, 2)
	first := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer))
	if ids := completion.TargetIDs(first.Targets); !slices.Contains(ids, lifecycletest.MasterServer) {
		t.Fatalf("targets %v lack the master", ids)
	}
	w.Clock.Advance(31 * time.Minute)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	w.WantState(first, api.Failed)
	before := w.Node(lifecycletest.MasterServer).Generation
	retry := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer))
	if after := w.Node(lifecycletest.MasterServer).Generation; after != before {
		t.Fatalf("the retry changed the master's document (%d to %d), so that the test shows nothing", before, after)
	}
	if ids := completion.TargetIDs(retry.Targets); !slices.Contains(ids, lifecycletest.MasterServer) {
		t.Errorf("targets %v lack the master, which the failed attempt waited for", ids)
	}
}
