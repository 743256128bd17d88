package operation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store/event"
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

// third is the server that takes the place of replacement.
var third = lifecycletest.UUID(1, 3)

// An END waits, such as the one of Tacker's hook, and an operator states that the old server is off: that END goes on, and who
// stated it is on record. It can be stated again.
func TestAnEndThatWaitsTakesAStatement(t *testing.T) {
	hook := healEnd()
	hook.IdempotencyKey = "occurrence:HEAL:END"
	for name, c := range map[string]struct {
		waits, says api.OperationRequest
		taken       bool
	}{
		"by the new server":                    {hook, lifecycletest.Heal(api.PhaseEnd, nil, replacement), true},
		"by the old server":                    {hook, lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.StorageServer), false},
		"with a topology":                      {hook, lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), replacement), true},
		"what the END says too":                {hook, saying(lifecycletest.Heal(api.PhaseEnd, nil, replacement), api.KeepPersistentVolumes), true},
		"what the END does not say":            {hook, saying(lifecycletest.Heal(api.PhaseEnd, nil, replacement), api.WithdrawPersistentVolumes), false},
		"by nobody":                            {hook, lifecycletest.Heal(api.PhaseEnd, nil), false},
		"by another server":                    {hook, lifecycletest.Heal(api.PhaseEnd, nil, lifecycletest.MasterServer), false},
		"with a START":                         {hook, lifecycletest.Heal(api.PhaseStart, nil, replacement), false},
		"with a key":                           {hook, keyed(lifecycletest.Heal(api.PhaseEnd, nil, replacement), "mine"), false},
		"an END that is about others":          {lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, healEnd().Topology), lifecycletest.Heal(api.PhaseEnd, nil, replacement), false},
		"an END that knows of another old one": {keyed(off(healEnd()), "occurrence:HEAL:END"), lifecycletest.Heal(api.PhaseEnd, nil, third), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			end := w.Post(c.waits)
			if c.waits.OldServerIsOff { // Tacker's retry with the server that was made meanwhile
				w.MustCancel(end)
				cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(third)
				c.waits.Topology, c.waits.VnfcInstanceIds = cloud.Stacks[lifecycletest.StackOne], []string{third}
				end = w.Post(c.waits)
			}
			server := end.Targets[0].NodeID
			w.Must(w.Enroll(server))
			wantVolume(w, server, false)
			w.Ctx = event.Context(w.Ctx, func() string { return lifecycletest.Operator })
			if !c.taken {
				var err error
				if w.Writes(func() { _, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, off(c.says)) }) {
					t.Error("a statement that is refused changed something")
				}
				w.WantRefused(err, api.ProblemOperationInProgress, end.ID)
				wantVolume(w, server, false)
				return
			}
			for range 2 {
				if got := w.Post(off(c.says)); got.ID != end.ID || !got.Joined || got.OldServerIsOffBy != lifecycletest.Operator || got.State != api.Processing {
					t.Errorf("the statement is answered with %+v", got)
				}
			}
			wantVolume(w, server, true)
			happened, err := w.Events.List(event.Query{Limit: 1000, Type: api.HappenedOldServerIsOff})
			w.Must(err)
			if len(happened.Items) != 1 || happened.Items[0].OperationID != end.ID || happened.Items[0].Message != lifecycletest.Operator+" stated that the storage server "+lifecycletest.StorageServer+" is off" {
				t.Errorf("the events are %+v", happened.Items)
			}
			w.Restart()
			w.Converge(server)
			if got := w.WantState(end, api.Completed); got.Joined || got.IdempotencyKey != c.waits.IdempotencyKey {
				t.Errorf("the END is %+v", got)
			}
			cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(third)
			next := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(third), third))
			wantVolume(w, third, false) // it was said of the server before
			w.WantState(next, api.Processing)
		})
	}
}

func keyed(r api.OperationRequest, key string) api.OperationRequest {
	r.IdempotencyKey = key
	return r
}

// An operator's statement is about the server that may write when it is made, and about no later one.
func TestAStatementIsAboutOneServer(t *testing.T) {
	end := lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(third), replacement)
	again := func(w *lifecycletest.World) { // Tacker's retry says it again, with the keys of before and the server that it knew
		w.Post(keyed(off(healStart()), "occurrence:HEAL:START"))
		w.Post(keyed(off(end), "occurrence:HEAL:END"))
	}
	for name, c := range map[string]struct {
		next func(*lifecycletest.World)
		told bool
	}{
		"an END that follows": {func(w *lifecycletest.World) { w.Post(end) }, false},
		"a heal that follows": {func(w *lifecycletest.World) {
			w.Post(lifecycletest.Heal(api.PhaseStart, nil, replacement))
			w.Post(end)
		}, false},
		"Tacker's retry": {again, false},
		"Tacker's retry, and a word": {func(w *lifecycletest.World) {
			again(w)
			w.MustCancel(w.Operations()[0])
			w.Post(off(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(third), third)))
		}, true},
		"it is said of the next one": {func(w *lifecycletest.World) { w.Post(off(end)) }, true},
		"it is said of the server that has the volumes": {func(w *lifecycletest.World) {
			w.MustCancel(w.Post(off(healEnd())))
			w.Post(end)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			w.Post(keyed(off(healStart()), "occurrence:HEAL:START"))
			w.MustCancel(w.Post(keyed(off(healEnd()), "occurrence:HEAL:END")))
			wantVolume(w, replacement, true)
			cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(replacement)
			c.next(w)
			wantVolume(w, third, c.told)
		})
	}
}

// The statement of a START ends with it: a heal that was given up says nothing of the next one.
func TestTheStatementOfAStartEndsAtItsDeadline(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.Post(off(healStart()))
	w.Wait(30 * time.Minute)
	w.Post(healEnd())
	wantVolume(w, replacement, false)
}

// A START is refused that says of a server that it is off which is not the one that may write.
func TestAStatementAboutAnotherServerIsRefused(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.MustCancel(w.Post(healEnd()))
	cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(replacement)
	wantFaults(t, w, off(lifecycletest.Heal(api.PhaseStart, nil, replacement)), "/oldServerIsOff may still write is "+lifecycletest.StorageServer)
}

// otherVolume is what takes the place of Volume.
var otherVolume = lifecycletest.UUID(9, 2)

// emptied is the topology with another volume, on the storage server.
func emptied(t *api.Topology) *api.Topology {
	t.Volumes[0].ID, t.Servers[0].VolumeIds = otherVolume, []string{otherVolume}
	return t
}

// PersistentVolumes that are kept lead to one volume. Whatever request brings another one, no document names it: it is empty.
func TestNoDocumentNamesAnotherVolumeWhilePersistentVolumesAreKept(t *testing.T) {
	next := emptied(lifecycletest.HealedTopology(replacement))
	scale := lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, next)
	put := func(w *lifecycletest.World, t *api.Topology) {
		w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: t})
	}
	for name, c := range map[string]struct {
		do     func(*lifecycletest.World, *lifecycletest.Cloud)
		server string
		told   bool
	}{
		"a scaling": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) { w.MustCancel(w.Post(scale)) }, replacement, false},
		"a PUT":     {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) { put(w, next) }, replacement, false},
		"a PUT with the same server": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			put(w, emptied(lifecycletest.FullTopology()))
		}, lifecycletest.StorageServer, false},
		"an END whose server is off": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			w.MustCancel(w.Post(scale))
			refuses(w, off(lifecycletest.Heal(api.PhaseEnd, next, replacement)))
		}, replacement, false},
		"parameters that keep nothing": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			w.MustCancel(w.Post(scale))
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")})
		}, replacement, false},
		"a withdrawal": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			cloud.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			w.Post(saying(healStart(), api.WithdrawPersistentVolumes))
			w.ReportAbsent()
			w.Post(lifecycletest.Heal(api.PhaseEnd, next, replacement))
		}, replacement, true},
		"the entire VNF": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			w.Post(lifecycletest.Heal(api.PhaseEnd, emptied(madeAnew())))
		}, replacement, true},
		"another cluster": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) { put(w, emptied(madeAnew())) }, replacement, true},
		"a volume that was adopted": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			put(w, emptied(lifecycletest.FullTopology()))
			_, err := w.Permits.Adopt(w.Ctx, otherVolume, lifecycletest.UUID(8, 1))
			w.Must(err)
		}, lifecycletest.StorageServer, true},
		"the volume is given back": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			w.MustCancel(w.Post(scale))
			put(w, lifecycletest.HealedTopology(replacement))
		}, replacement, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			cloud.Stacks[lifecycletest.StackOne] = next
			c.do(w, cloud)
			w.Restart()
			w.Source, w.Lifecycle.Instances.Observer.Source = cloud, cloud
			cloud.Replaced(c.server)
			cloud.Left.Volumes[otherVolume] = []string{c.server}
			if !c.told {
				cloud.Left.Volumes[lifecycletest.Volume] = nil // Heat has detached it
			}
			w.Clock.Advance(time.Minute)
			w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
			wantVolume(w, c.server, c.told)
			if withheld := w.Node(c.server).Withheld; !c.told && !slices.ContainsFunc(withheld, func(h api.Withheld) bool {
				return h.Reason == api.ReasonVolumeReplaced && strings.Contains(h.Message, lifecycletest.Volume) && strings.Contains(h.Message, otherVolume)
			}) {
				t.Errorf("what is withheld is %+v", withheld)
			}
		})
	}
}

// A START whose stack has another volume already is refused for that reason alone, before anything is in force.
func TestAStartFindsAnotherVolume(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	cloud.Stacks[lifecycletest.StackOne] = emptied(lifecycletest.FullTopology())
	refuses(w, healStart())
	refuses(w, off(healStart()))
	wantVolume(w, lifecycletest.StorageServer, true)
}

// What the cloud shows of another volume is no proof: the old server may write to the one that the PersistentVolumes are on.
func TestTheCloudShowsTheVolumeOfThePersistentVolumes(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.MustCancel(w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, emptied(lifecycletest.HealedTopology(replacement)))))
	cloud.Left = &stack.Remains{Servers: map[string]string{replacement: "ACTIVE"},
		Volumes: map[string][]string{otherVolume: {replacement}, lifecycletest.Volume: {lifecycletest.StorageServer}}}
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: lifecycletest.HealedTopology(replacement)})
	wantVolume(w, replacement, false)
}

// refuses wants the request to be refused because of the volume alone.
func refuses(w *lifecycletest.World, r api.OperationRequest) {
	w.Helper()
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r)
	if found := faults(w, err); len(found) != 1 || !strings.Contains(found[0].Message, "are kept are on "+lifecycletest.Volume) {
		w.Errorf("the request is refused with %v", found)
	}
}

// An END continues what was about the storage server, and nothing else.
func TestAnEndContinuesAHealOfTheStorageServer(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.ReportBound(api.BoundPersistentVolume{Name: "pv1", Server: "10.10.0.5", Claim: "shop/data"})
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer))
	wantFaults(t, w, saying(healEnd(), api.WithdrawPersistentVolumes), "/persistentVolumes no START of a HEAL withdrew them")
	moved := healEnd()
	moved.Topology.Servers[0].ConnectionPoints[0].Addresses = []string{"10.10.0.77"}
	w.WantRefused(w.WantState(w.Post(moved), api.Failed).Error, api.ProblemVolumesStranded, "shop/data")
}

// Whatever an END says of the PersistentVolumes, it takes the word that the server is off for which the new one waits.
func TestAFencedServerIsLetInByAStatement(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.Post(saying(healStart(), api.WithdrawPersistentVolumes))
	w.ReportAbsent()
	w.MustCancel(w.Post(healEnd()))
	wantVolume(w, replacement, true)
	cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(third)
	end := lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(third), third)
	w.MustCancel(w.Post(end))
	wantVolume(w, third, false)
	w.MustCancel(w.Post(off(end)))
	wantVolume(w, third, true)
	wantFaults(t, w, off(saying(lifecycletest.Heal(api.PhaseStart, nil, third), api.WithdrawPersistentVolumes)), "/oldServerIsOff nothing waits for the old server")
}

// What strands PersistentVolumes is not in force by a START either, such as that of Tacker's retry.
func TestAStartThatStrandsPersistentVolumes(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.ReportBound(api.BoundPersistentVolume{Name: "pv1", Server: "10.10.0.5", Claim: "shop/data"})
	cloud.Stacks[lifecycletest.StackOne] = lifecycletest.MovedTopology("10.10.0.77")
	wantFaults(t, w, healStart(), "/persistentVolumes PersistentVolume pv1, bound by claim shop/data, points to 10.10.0.5, and the new storage server has 10.10.0.77")
	w.ReportBound() // nobody uses it, so the master may make it anew
	w.WantState(w.Post(healStart()), api.Completed)
}

// An address that is not there yet is another one.
func TestAnEndWithoutTheAddressStrandsPersistentVolumes(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.ReportBound(api.BoundPersistentVolume{Name: "pv1", Server: "10.10.0.5", Claim: "shop/data"})
	w.Post(healStart())
	end := healEnd()
	end.Topology.Servers[0].ConnectionPoints[0].Addresses = nil
	w.WantRefused(w.WantState(w.Post(end), api.Failed).Error, api.ProblemVolumesStranded, "PersistentVolume pv1, bound by claim shop/data, points to 10.10.0.5, and the new storage server has no address")
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.Servers[0] != "10.10.0.5" {
		t.Errorf("the master is told %+v", s)
	}
}

// A storage server that is dead never serves what it was told since. It is healed if its clients' record was on the volume before.
func TestADeadStorageServerIsHealed(t *testing.T) {
	changed := json.RawMessage(strings.Replace(string(lifecycletest.KeepingParameters()), "10.10.0.0/24", "10.20.0.0/24", 1))
	for name, c := range map[string]struct {
		do func(*lifecycletest.World, *lifecycletest.Cloud)
		// refused is a part of the reason, "" if it is healed.
		refused string
	}{
		"after a PUT": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.FallSilent(lifecycletest.StorageServer)
			w.Put(api.InstanceSpec{AdditionalParams: changed})
		}, ""},
		"after a restore": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			w.Restore()
			w.Source, w.Lifecycle.Instances.Observer.Source = cloud, cloud
			_, err := w.Lifecycle.Instances.ConfirmInstance(w.Ctx, lifecycletest.InstanceID)
			w.Must(err)
			w.FallSilent(lifecycletest.StorageServer)
		}, ""},
		"while it is heard of": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Put(api.InstanceSpec{AdditionalParams: changed})
		}, "or replace it and post only the END"},
		"before it recorded its clients": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")})
			w.Converge(lifecycletest.StorageServer)
			w.FallSilent(lifecycletest.StorageServer)
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters()})
		}, "it may not have the record of its clients on the volume"},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			c.do(w, cloud)
			if c.refused != "" {
				wantFaults(t, w, healStart(), "/persistentVolumes "+c.refused)
				return
			}
			start := w.WantState(w.Post(healStart()), api.Completed)
			if !lifecycletest.HasFault(start.Warnings, "/persistentVolumes", "does not serve /volume/nfs/pv1 yet") {
				t.Errorf("the START warns of %v", start.Warnings)
			}
		})
	}
}

// One PUT may bring the promise and another server: the one before was told of the volumes, under whatever parameters.
func TestAServerThatWasToldWithoutAPromiseMayWrite(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")})
	w.Post(healStart())
	w.ReportAbsent()
	w.MustCancel(w.Post(healEnd()))
	wantVolume(w, replacement, true) // told without a promise
	next := lifecycletest.HealedTopology(third)
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: next})
	wantVolume(w, third, false)
	if withheld := w.Node(third).Withheld; !slices.ContainsFunc(withheld, func(h api.Withheld) bool { return strings.Contains(h.Message, "storage ("+replacement+")") }) {
		t.Errorf("what is withheld is %+v", withheld)
	}
	cloud.Replaced(third)
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	wantVolume(w, third, true)
}

// moved is the topology with the storage server at another address.
func moved(t *api.Topology) *api.Topology {
	t.Servers[0].ConnectionPoints[0].Addresses = []string{"10.10.0.77"}
	return t
}

// What was withdrawn, or has gone with its cluster, is not withdrawn once more: its address may be somebody else's by then.
func TestAnAddressIsForgottenWithItsPersistentVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		heal func(*lifecycletest.World)
		next *api.Topology
	}{
		"withdrawn": {func(w *lifecycletest.World) {
			w.Post(saying(healStart(), api.WithdrawPersistentVolumes))
			w.ReportAbsent()
			w.MustCancel(w.Post(lifecycletest.Heal(api.PhaseEnd, moved(lifecycletest.HealedTopology(replacement)), replacement)))
		}, moved(lifecycletest.HealedTopology(replacement))},
		"the entire VNF": {func(w *lifecycletest.World) {
			w.MustCancel(w.Post(lifecycletest.Heal(api.PhaseEnd, moved(madeAnew()))))
		}, moved(madeAnew())},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			c.heal(w)
			wantVolume(w, replacement, true)
			cloud.Stacks[lifecycletest.StackOne] = c.next
			w.Post(saying(lifecycletest.Heal(api.PhaseStart, nil, replacement), api.WithdrawPersistentVolumes))
			if s := w.Section(c.next.Servers[1].ID); s == nil || s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, []string{"10.10.0.77"}) {
				t.Errorf("the master is asked for %+v", s)
			}
		})
	}
}

// After a withdrawal nobody writes, although its END has no storage server yet: the next one waits for nobody.
func TestAStorageServerThatComesAfterTheEndOfAWithdrawal(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.Post(saying(healStart(), api.WithdrawPersistentVolumes))
	w.ReportAbsent()
	end := healEnd()
	end.Topology.Servers, end.Partial = end.Topology.Servers[1:], true
	w.MustCancel(w.Post(end))
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: lifecycletest.HealedTopology(replacement)})
	wantVolume(w, replacement, true)
}

// One PUT may bring the promise and a server elsewhere: PersistentVolumes at the address before are withdrawn too.
func TestThePromiseComesWithAnotherAddress(t *testing.T) {
	w := lifecycletest.Registered(t)
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: moved(lifecycletest.HealedTopology(replacement))})
	wantVolume(w, replacement, false)
	w.Post(saying(lifecycletest.Heal(api.PhaseStart, nil, replacement), api.WithdrawPersistentVolumes))
	if s := w.Section(lifecycletest.MasterServer); s == nil || s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, []string{"10.10.0.5", "10.10.0.77"}) {
		t.Errorf("the master is asked for %+v", s)
	}
}
