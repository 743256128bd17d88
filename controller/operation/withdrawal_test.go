package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestHealOfTheStorageServerWithdrawsItsVolumes(t *testing.T) {
	w := lcmtest.Registered(t)
	start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	if s := w.Section(lcmtest.MasterServer); start.State != api.Processing || s.State != api.PersistentVolumesAbsent || s.Servers[0] != "10.10.0.5" {
		t.Fatalf("HEAL START is %+v, the section %+v", start, s)
	}
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer))
	w.WantRefused(err, api.ProblemOperationInProgress, "HEAL START")
	w.Restart()
	w.ReportVolumes(lcmtest.MasterServer, api.ConditionTrue, api.ReasonRegistered, "")
	if got := w.Operation(start.ID); got.State != api.Processing {
		t.Fatalf("HEAL START is %s on the word of a document that is no more", got.State)
	}
	w.ReportVolumes(lcmtest.MasterServer, api.ConditionTrue, api.ReasonAbsent, "")
	if got := w.Operation(start.ID); got.State != api.Completed {
		t.Fatalf("HEAL START is %+v, want COMPLETED", got)
	}
	end := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer))
	if s := w.Section(lcmtest.MasterServer); s != nil {
		t.Fatalf("before the new storage server serves the section is %+v", s)
	}
	w.Converge(lcmtest.UUID(1, 2), lcmtest.MasterServer)
	if s := w.Section(lcmtest.MasterServer); s == nil || s.State != api.PersistentVolumesPresent {
		t.Fatalf("after it the section is %+v", s)
	}
	w.Converge(lcmtest.MasterServer)
	if got := w.Operation(end.ID); got.State != api.Completed {
		t.Fatalf("HEAL END is %+v, want COMPLETED", got)
	}
}

// A retry with a second START finds the first one's withdrawal, and a PUT may
// have come in between. Whatever becomes of the second, nothing stays withdrawn.
func TestASecondStartTakesTheWithdrawalOver(t *testing.T) {
	put := func(w *lcmtest.World) {
		w.Put(api.InstanceSpec{AdditionalParams: lcmtest.VolumesParameters("10.20.0.0/24")})
	}
	for name, c := range map[string]struct {
		between func(*lcmtest.World)
		outcome func(*lcmtest.World, api.Operation)
	}{
		"and is over at once":                {func(*lcmtest.World) {}, func(*lcmtest.World, api.Operation) {}},
		"after a PUT":                        {put, (func(w *lcmtest.World, _ api.Operation) { w.ReportAbsent() })},
		"after a PUT, with another topology": {put, func(w *lcmtest.World, _ api.Operation) { w.ReportAbsent() }},
		"after a PUT, and finds a volume in use": {put, func(w *lcmtest.World, _ api.Operation) {
			w.ReportVolumes(lcmtest.MasterServer, api.ConditionFalse, api.ReasonInUse, "pv1")
		}},
		"after a PUT, and no agent answers it":      {put, func(*lcmtest.World, api.Operation) {}},
		"and a restart comes before it is answered": {put, func(w *lcmtest.World, _ api.Operation) { w.Restart(); w.ReportAbsent() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Registered(t)
			w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
			w.ReportAbsent()
			c.between(w)
			r := lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer)
			if strings.Contains(name, "topology") {
				r.Topology = lcmtest.FullTopology()
				r.Topology.Servers = append(r.Topology.Servers, lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
			}
			second := w.Post(r)
			c.outcome(w, second)
			for range 2 { // its own deadline, and that of waiting for the END
				w.Clock.Advance(time.Hour)
				w.Must(w.LCM.Sweep(w.Ctx))
			}
			w.WantState(second, api.Failed)
			w.Converge(lcmtest.StorageServer)
			w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
		})
	}
}

// A START of another kind comes instead of the END of the HEAL.
func TestAnotherOperationTakesAWithdrawalBack(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{
		"INSTANTIATE": lcmtest.Request(api.Instantiate, api.PhaseEnd),
		"SCALE":       lcmtest.Scale(api.ScaleOut, api.PhaseStart, nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Registered(t)
			start := w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
			_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, r)
			w.WantRefused(err, api.ProblemOperationInProgress, "HEAL START")
			w.ReportAbsent()
			w.Post(r)
			w.WantRefused(w.WantState(start, api.Failed).Error, api.ProblemInterrupted)
			w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
		})
	}
}

func TestTerminateForgetsWhatWasRegistered(t *testing.T) {
	w := lcmtest.Registered(t)
	w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer))
	w.ReportAbsent()
	w.WantState(w.Post(lcmtest.Request(api.Terminate, api.PhaseEnd)), api.Completed)
	w.Put(lcmtest.WithVolumes(lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(1, 2), "storage"), lcmtest.Server(lcmtest.UUID(2, 2), "master"), lcmtest.Server(lcmtest.UUID(3, 2), "worker"))))
	w.WantSection(lcmtest.UUID(2, 2), "")
	w.Put(lcmtest.Spec(nil))
	w.Converge(lcmtest.UUID(1, 2))
	if s := w.Section(lcmtest.UUID(2, 2)); s != nil {
		t.Errorf("a new cluster that has never had any is asked to remove them: %+v", s)
	}
}

func TestWhoIsHealedDecidesWhatIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		servers   []string
		withdrawn bool
	}{
		"the storage server":            {[]string{lcmtest.StorageServer}, true},
		"the storage server and others": {[]string{lcmtest.WorkerServer, lcmtest.StorageServer}, true},
		"all of them":                   {[]string{lcmtest.WorkerServer, lcmtest.StorageServer, lcmtest.MasterServer}, false},
		"the entire VNF":                {nil, false},
		"the worker":                    {[]string{lcmtest.WorkerServer}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Registered(t)
			start := w.Post(lcmtest.Heal(api.PhaseStart, nil, c.servers...))
			if (start.State == api.Processing) != c.withdrawn || (w.Section(lcmtest.MasterServer).State == api.PersistentVolumesAbsent) != c.withdrawn {
				t.Errorf("HEAL START is %s, the section %+v, want it withdrawn: %v", start.State, w.Section(lcmtest.MasterServer), c.withdrawn)
			}
		})
	}
}

func TestAnEntireHealWithAnotherStackWithdrawsNothing(t *testing.T) {
	w := lcmtest.Registered(t)
	fresh := lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(1, 2), "storage"), lcmtest.Server(lcmtest.UUID(2, 2), "master"), lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
	fresh.StackID = lcmtest.StackTwo
	w.WantState(w.Post(lcmtest.Heal(api.PhaseStart, nil)), api.Completed)
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
	end := w.Post(lcmtest.Heal(api.PhaseEnd, fresh))
	w.WantSection(lcmtest.MasterServer, "") // it is gone, and speaks for no cluster
	w.Converge(lcmtest.UUID(2, 2), lcmtest.UUID(3, 2), lcmtest.UUID(1, 2))
	w.WantState(end, api.Processing)
	w.Converge(lcmtest.UUID(2, 2))
	w.WantState(end, api.Completed)
	w.WantSection(lcmtest.UUID(2, 2), api.PersistentVolumesPresent)
}

func TestAStartNeedsWhoIsToBeAsked(t *testing.T) {
	w := lcmtest.Registered(t)
	r := lcmtest.Heal(api.PhaseStart, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer)
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, r)
	if f := faults(w, err); len(f) != 1 || f[0].Pointer != "/vnfcInstanceIds" || !strings.Contains(f[0].Message, "no longer has it") {
		t.Errorf("a topology without the storage server: %+v", f)
	}
	r.Topology = lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(lcmtest.WorkerServer, "worker"))
	_, err = w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, r)
	if f := faults(w, err); len(f) != 1 || !strings.Contains(f[0].Message, "has no master that could withdraw") {
		t.Errorf("a topology without a master: %+v", f)
	}
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
}

func TestAKeyJoinsTheStartAtWork(t *testing.T) {
	w := lcmtest.Registered(t)
	r := lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer)
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
	w.Must(w.LCM.Sweep(w.Ctx))
	if anew := w.Post(r); anew.ID == first.ID || anew.State != api.Processing {
		t.Errorf("after it was taken back the key gives %+v, want a new one", anew)
	}
}

// Tacker's retry of a HEAL whose END has failed begins with the START, before Heat replaces
// the storage server once more. The END had the volumes registered again.
func TestAKeyBeginsAnotherStartAfterItsEndHasFailed(t *testing.T) {
	w := lcmtest.Registered(t)
	r, end := lcmtest.Heal(api.PhaseStart, nil, lcmtest.StorageServer), lcmtest.Heal(api.PhaseEnd, lcmtest.FullTopology(), lcmtest.StorageServer)
	r.IdempotencyKey, end.IdempotencyKey = "heal-1 START", "heal-1 END"
	first := w.Post(r)
	w.ReportAbsent()
	w.WantState(first, api.Completed)
	op := w.Post(end)
	if again := w.Post(r); again.ID != first.ID || !again.Joined { // late, and the END is in progress
		t.Errorf("the key gives %+v, want %s", again, first.ID)
	}
	if _, err := w.LCM.Operations.CancelOperation(w.Ctx, lcmtest.InstanceID, op.Sequence, "the driver, at its deadline"); err != nil {
		t.Fatal(err)
	}
	w.Converge(lcmtest.StorageServer)
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)

	second := w.Post(r)
	if second.ID == first.ID || second.State != api.Processing {
		t.Errorf("after its END has failed the key gives %+v, want another attempt", second)
	}
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesAbsent)
	w.ReportAbsent()
	w.WantState(second, api.Completed)
	op = w.Post(end)
	w.Converge(lcmtest.StorageServer, lcmtest.MasterServer, lcmtest.WorkerServer)
	w.WantState(op, api.Completed)
	if again := w.Post(r); again.ID != second.ID || !again.Joined {
		t.Errorf("after its END has succeeded the key gives %+v, want %s", again, second.ID)
	}
}

func TestScaleInNamesWhoLeavesAndWithdrawsNothing(t *testing.T) {
	w := lcmtest.Registered(t)
	start := lcmtest.Scale(api.ScaleIn, api.PhaseStart, nil)
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, start)
	if f := faults(w, err); len(f) != 1 || f[0].Pointer != "/vnfcInstanceIds" {
		t.Errorf("a SCALE_IN that names no VNFC: %+v", f)
	}
	start.VnfcInstanceIds = []string{"vnfc-" + lcmtest.WorkerServer}
	w.WantState(w.Post(start), api.Completed)
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
}

func TestAHealWithoutAStartWaitsForTheMasterToo(t *testing.T) {
	w := lcmtest.Registered(t)
	end := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(lcmtest.UUID(1, 2)), lcmtest.StorageServer))
	w.WantSection(lcmtest.MasterServer, "")
	if ids := reconcile.TargetIDs(end.Targets); !slices.Contains(ids, lcmtest.MasterServer) {
		t.Errorf("targets %v lack the master, from which the volumes are withheld", ids)
	}
	w.Converge(lcmtest.UUID(1, 2))
	w.WantState(end, api.Processing)
	w.WantSection(lcmtest.MasterServer, api.PersistentVolumesPresent)
	w.Converge(lcmtest.MasterServer)
	w.WantState(end, api.Completed)
}

// The master's document is as the first attempt left it, and the retry is not about the
// master: it waits for the master anyway.
func TestARetryWaitsForTheNodesWhoseDocumentsTheFailedAttemptChanged(t *testing.T) {
	w := lcmtest.Registered(t)
	replacement := lcmtest.UUID(1, 2)
	first := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(replacement), lcmtest.StorageServer))
	if ids := reconcile.TargetIDs(first.Targets); !slices.Contains(ids, lcmtest.MasterServer) {
		t.Fatalf("targets %v lack the master", ids)
	}
	w.Clock.Advance(31 * time.Minute)
	w.Must(w.LCM.Sweep(w.Ctx))
	w.WantState(first, api.Failed)
	before := w.Node(lcmtest.MasterServer).Generation
	retry := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.HealedTopology(replacement), lcmtest.StorageServer))
	if after := w.Node(lcmtest.MasterServer).Generation; after != before {
		t.Fatalf("the retry changed the master's document (%d to %d), so that the test shows nothing", before, after)
	}
	if ids := reconcile.TargetIDs(retry.Targets); !slices.Contains(ids, lcmtest.MasterServer) {
		t.Errorf("targets %v lack the master, which the failed attempt waited for", ids)
	}
}
