package operation_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// secondMaster is a master that FullTopology lacks.
var secondMaster = lifecycletest.UUID(2, 2)

// madeAnew is the topology once every server was replaced.
func madeAnew() *api.Topology {
	return lifecycletest.TopologyOf(lifecycletest.Server(replacement, "storage"), lifecycletest.Server(secondMaster, "master"), lifecycletest.Server(lifecycletest.SecondWorker, "worker"))
}

// An END that names nobody, as Tacker's v2 API posts it where the script is not told which servers there were, is about the
// servers that its START has named.
func TestAnEndWithoutNamesIsTheHealOfItsStart(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.Post(healStart())
	unnamed := lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement))
	other := lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement))
	other.Topology.Volumes[0].ID, other.Topology.Servers[0].VolumeIds = lifecycletest.UUID(9, 2), []string{lifecycletest.UUID(9, 2)}
	wantFaults(t, w, other, "/topology/volumes/0/id are kept are on "+lifecycletest.Volume)
	for range 2 { // its repetition too
		end := w.Post(unnamed)
		if end.PersistentVolumes != api.KeepPersistentVolumes {
			t.Errorf("the END says %q of the PersistentVolumes", end.PersistentVolumes)
		}
		wantVolume(w, replacement, false)
		w.MustCancel(end)
	}
	w.Post(off(unnamed))
	wantVolume(w, replacement, true)
}

// A heal of the entire VNF waits for nobody if the cluster goes with its PersistentVolumes, and so no master of before is left.
func TestAHealOfTheEntireVNFThatLeavesAMaster(t *testing.T) {
	grown := madeAnew()
	grown.Servers = append(grown.Servers, lifecycletest.Server(lifecycletest.MasterServer, "master"))
	for name, c := range map[string]struct {
		before func(*lifecycletest.World)
		next   *api.Topology
		told   bool
	}{
		"no master is left":      {func(*lifecycletest.World) {}, madeAnew(), true},
		"one of two is left":     {func(*lifecycletest.World) {}, grown, false},
		"the master is left":     {func(*lifecycletest.World) {}, lifecycletest.HealedTopology(replacement), false},
		"its START named a part": {func(w *lifecycletest.World) { w.Post(healStart()) }, madeAnew(), false},
		"the master of a PUT is left": {func(w *lifecycletest.World) {
			t := madeAnew()
			t.Servers[0] = lifecycletest.Server(lifecycletest.StorageServer, "storage")
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: t})
		}, madeAnew(), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := lifecycletest.Keeping(t)
			c.before(w)
			w.Post(lifecycletest.Heal(api.PhaseEnd, c.next))
			wantVolume(w, replacement, c.told)
		})
	}
}

// The END of a heal of the entire VNF is repeated, and the storage server was replaced once more: the masters of now count.
func TestARepeatedHealOfTheEntireVNFThatLeavesAMaster(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.MustCancel(w.Post(lifecycletest.Heal(api.PhaseEnd, madeAnew())))
	wantVolume(w, replacement, true)
	third, next := lifecycletest.UUID(1, 3), madeAnew()
	next.Servers[0] = lifecycletest.Server(third, "storage")
	w.Post(lifecycletest.Heal(api.PhaseEnd, next))
	wantVolume(w, third, false)
}

// Only PersistentVolumes that are withdrawn, and the END of that heal, let the next server mount beside the old one: a START
// may be taken back, and no other operation replaces the storage server.
func TestAWithdrawalThatIsNotOverLiftsNoFence(t *testing.T) {
	withdraw := saying(lifecycletest.Heal(api.PhaseStart, nil, replacement), api.WithdrawPersistentVolumes)
	change := lifecycletest.Request(api.ChangeExtConn, api.PhaseStart)
	next := lifecycletest.HealedTopology(replacement)
	for name, c := range map[string]struct {
		start api.OperationRequest
		// owner is what the master answers, end the request after that.
		owner func(*lifecycletest.World)
		end   *api.OperationRequest
		told  bool
	}{
		"a heal":                              {withdraw, func(*lifecycletest.World) {}, nil, false},
		"a change of connectivity":            {change, func(*lifecycletest.World) {}, nil, false},
		"a heal that is refused":              {withdraw, inUse, nil, false},
		"a change of connectivity, refused":   {change, inUse, nil, false},
		"a heal, withdrawn":                   {withdraw, (*lifecycletest.World).ReportAbsent, nil, false},
		"a heal, withdrawn, and its END":      {withdraw, (*lifecycletest.World).ReportAbsent, &api.OperationRequest{Operation: api.Heal, VnfcInstanceIds: withdraw.VnfcInstanceIds, Topology: next}, true},
		"a heal, withdrawn, and a scaling":    {withdraw, (*lifecycletest.World).ReportAbsent, ref(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, next)), false},
		"a change, withdrawn, and its END":    {change, (*lifecycletest.World).ReportAbsent, &api.OperationRequest{Operation: api.ChangeExtConn, Topology: next}, false},
		"a change, withdrawn, and a heal":     {change, (*lifecycletest.World).ReportAbsent, &api.OperationRequest{Operation: api.Heal, VnfcInstanceIds: withdraw.VnfcInstanceIds, Topology: next}, false},
		"a heal, refused, and its END anyway": {withdraw, inUse, &api.OperationRequest{Operation: api.Heal, VnfcInstanceIds: withdraw.VnfcInstanceIds, Topology: next}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(replacement)
			w.MustCancel(w.Post(healEnd()))
			w.Post(c.start)
			wantVolume(w, replacement, false)
			if c.owner(w); c.end != nil {
				w.Post(*c.end)
			}
			wantVolume(w, replacement, c.told)
			w.Wait(24 * time.Hour) // nothing is in force any more but the END
			wantVolume(w, replacement, c.told)
		})
	}
}

func ref[T any](v T) *T { return &v }

// inUse is a report of the master that a claim uses a PersistentVolume.
func inUse(w *lifecycletest.World) {
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonInUse, "pv1 is Bound, by claim shop/data")
}
