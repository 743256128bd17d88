package lcm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// absent says in the owner's name that the PersistentVolumes are gone.
func (w *world) absent() {
	w.Helper()
	w.says(masterServer, api.ConditionTrue, api.ReasonAbsent, "")
}

// wantSection wants the document of the master to say this, "" for nothing.
func (w *world) wantSection(nodeID string, state api.PersistentVolumesSectionState) {
	w.Helper()
	s := w.section(nodeID)
	if s == nil && state == "" || s != nil && s.State == state {
		return
	}
	w.Fatalf("the section of %s is %+v, want %q", nodeID, s, state)
}

func (w *world) wantState(op api.Operation, state api.OperationState) api.Operation {
	w.Helper()
	got := w.operation(op.ID)
	if got.State != state {
		w.Fatalf("operation %s (%s %s) is %+v, want %s", op.ID, op.Operation, op.Phase, got, state)
	}
	return got
}

// withoutVolumes is the cluster whose parameters name no manifest any more.
func withoutVolumes() api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: parameters("10.10.0.0/24")}
}

func TestAPutInTheMiddleOfAWithdrawalCarriesItOn(t *testing.T) {
	for name, awaited := range map[string]bool{"of a START in progress": false, "of one that awaits its END": true} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			start := w.post(heal(api.PhaseStart, nil, storageServer))
			if awaited {
				w.absent()
			}
			version := w.put(api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}).DesiredVersion
			w.wantSection(masterServer, api.PersistentVolumesAbsent)
			if !awaited {
				w.absent()
			}
			w.wantState(start, api.Completed)
			w.Clock.Advance(time.Hour)
			w.must(w.LCM.Sweep(w.ctx))
			w.refused(w.wantState(start, api.Failed).Error, api.ProblemInterrupted, "a newer version of the desired state is in force and stays")
			w.converge(storageServer)
			w.wantSection(masterServer, api.PersistentVolumesPresent)
			if now := w.instance(); now.DesiredVersion != version+1 || !strings.Contains(string(now.AdditionalParams), "10.20.0.0/24") {
				t.Errorf("version %d is in force with %s, want the PUT's parameters in version %d", now.DesiredVersion, now.AdditionalParams, version+1)
			}
		})
	}
}

func TestAPutTakesNoStorageServerFromAWithdrawal(t *testing.T) {
	w := registered(t)
	start := w.post(heal(api.PhaseStart, nil, storageServer))
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, withVolumes(healed(uuid(1, 2))))
	w.refused(err, api.ProblemOperationInProgress, start.ID, storageServer)
	_, _, err = w.LCM.Instances.PutInstance(w.ctx, instanceID, withVolumes(topologyOf(server(storageServer, "storage"), server(workerServer, "worker"))))
	w.refused(err, api.ProblemOperationInProgress, masterServer)
	w.put(withoutVolumes())
	if s := w.section(masterServer); s == nil || s.State != api.PersistentVolumesAbsent || len(s.Manifests) != 0 {
		t.Errorf("with no manifest left the section is %+v", s)
	}
	w.absent()
	w.wantState(start, api.Completed)
}

// Other addresses would leave PersistentVolumes in the cluster that were made by the old ones
// and that no manifest names any more.
func TestAPutTakesNoAddressFromAWithdrawal(t *testing.T) {
	w := registered(t)
	now := *w.instance().Topology
	addresses := addressesOf(now.Servers[slices.IndexFunc(now.Servers, func(s api.Server) bool { return s.ID == storageServer })])
	moved := withVolumes(topologyOf(at(server(storageServer, "storage"), "10.10.1.5", "10.10.1.6"), server(masterServer, "master"), server(workerServer, "worker")))
	start := w.post(api.OperationRequest{Operation: api.ChangeExtConn, Phase: api.PhaseStart})
	w.upload(manifestFile, manifestOf("pv2"))
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, moved)
	w.refused(err, api.ProblemOperationInProgress, start.ID, addresses[0], "10.10.1.5, 10.10.1.6")
	if s := w.section(masterServer); s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, addresses) {
		t.Errorf("the master is asked for %+v, want none at %v", s, addresses)
	}
	w.absent()
	w.wantState(start, api.Completed)
	w.put(moved)
}

// A retry with a second START finds the first one's withdrawal, and a PUT may
// have come in between. Whatever becomes of the second, nothing stays withdrawn.
func TestASecondStartTakesTheWithdrawalOver(t *testing.T) {
	put := func(w *world) { w.put(api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}) }
	for name, c := range map[string]struct {
		between func(*world)
		outcome func(*world, api.Operation)
	}{
		"and is over at once":                       {func(*world) {}, func(*world, api.Operation) {}},
		"after a PUT":                               {put, (func(w *world, _ api.Operation) { w.absent() })},
		"after a PUT, with another topology":        {put, func(w *world, _ api.Operation) { w.absent() }},
		"after a PUT, and finds a volume in use":    {put, func(w *world, _ api.Operation) { w.says(masterServer, api.ConditionFalse, api.ReasonInUse, "pv1") }},
		"after a PUT, and no agent answers it":      {put, func(*world, api.Operation) {}},
		"and a restart comes before it is answered": {put, func(w *world, _ api.Operation) { w.restart(); w.absent() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			w.post(heal(api.PhaseStart, nil, storageServer))
			w.absent()
			c.between(w)
			r := heal(api.PhaseStart, nil, storageServer)
			if strings.Contains(name, "topology") {
				r.Topology = full()
				r.Topology.Servers = append(r.Topology.Servers, server(uuid(3, 2), "worker"))
			}
			second := w.post(r)
			c.outcome(w, second)
			for range 2 { // its own deadline, and that of waiting for the END
				w.Clock.Advance(time.Hour)
				w.must(w.LCM.Sweep(w.ctx))
			}
			w.wantState(second, api.Failed)
			w.converge(storageServer)
			w.wantSection(masterServer, api.PersistentVolumesPresent)
		})
	}
}

// A START of another kind comes instead of the END of the HEAL.
func TestAnotherOperationTakesAWithdrawalBack(t *testing.T) {
	for name, r := range map[string]api.OperationRequest{
		"INSTANTIATE": request(api.Instantiate, api.PhaseEnd),
		"SCALE":       scale(api.ScaleOut, api.PhaseStart, nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			start := w.post(heal(api.PhaseStart, nil, storageServer))
			_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
			w.refused(err, api.ProblemOperationInProgress, "HEAL START")
			w.absent()
			w.post(r)
			w.refused(w.wantState(start, api.Failed).Error, api.ProblemInterrupted)
			w.wantSection(masterServer, api.PersistentVolumesPresent)
		})
	}
}

func TestTerminateForgetsWhatWasRegistered(t *testing.T) {
	w := registered(t)
	w.post(heal(api.PhaseStart, nil, storageServer))
	w.absent()
	w.wantState(w.post(request(api.Terminate, api.PhaseEnd)), api.Completed)
	w.put(withVolumes(topologyOf(server(uuid(1, 2), "storage"), server(uuid(2, 2), "master"), server(uuid(3, 2), "worker"))))
	w.wantSection(uuid(2, 2), "")
	w.put(withoutVolumes())
	w.converge(uuid(1, 2))
	if s := w.section(uuid(2, 2)); s != nil {
		t.Errorf("a new cluster that has never had any is asked to remove them: %+v", s)
	}
}

func TestWhoIsHealedDecidesWhatIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		servers   []string
		withdrawn bool
	}{
		"the storage server":            {[]string{storageServer}, true},
		"the storage server and others": {[]string{workerServer, storageServer}, true},
		"all of them":                   {[]string{workerServer, storageServer, masterServer}, false},
		"the entire VNF":                {nil, false},
		"the worker":                    {[]string{workerServer}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			start := w.post(heal(api.PhaseStart, nil, c.servers...))
			if (start.State == api.Processing) != c.withdrawn || (w.section(masterServer).State == api.PersistentVolumesAbsent) != c.withdrawn {
				t.Errorf("HEAL START is %s, the section %+v, want it withdrawn: %v", start.State, w.section(masterServer), c.withdrawn)
			}
		})
	}
}

func TestAnEntireHealWithAnotherStackWithdrawsNothing(t *testing.T) {
	w := registered(t)
	fresh := topologyOf(server(uuid(1, 2), "storage"), server(uuid(2, 2), "master"), server(uuid(3, 2), "worker"))
	fresh.StackID = stackTwo
	w.wantState(w.post(heal(api.PhaseStart, nil)), api.Completed)
	w.wantSection(masterServer, api.PersistentVolumesPresent)
	end := w.post(heal(api.PhaseEnd, fresh))
	w.wantSection(masterServer, "") // it is gone, and speaks for no cluster
	w.converge(uuid(2, 2), uuid(3, 2), uuid(1, 2))
	w.wantState(end, api.Processing)
	w.converge(uuid(2, 2))
	w.wantState(end, api.Completed)
	w.wantSection(uuid(2, 2), api.PersistentVolumesPresent)
}

func TestAStartNeedsWhoIsToBeAsked(t *testing.T) {
	w := registered(t)
	r := heal(api.PhaseStart, healed(uuid(1, 2)), storageServer)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	if f := w.faults(err); len(f) != 1 || f[0].Pointer != "/vnfcInstanceIds" || !strings.Contains(f[0].Message, "no longer has it") {
		t.Errorf("a topology without the storage server: %+v", f)
	}
	r.Topology = topologyOf(server(storageServer, "storage"), server(workerServer, "worker"))
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, r)
	if f := w.faults(err); len(f) != 1 || !strings.Contains(f[0].Message, "has no master that could withdraw") {
		t.Errorf("a topology without a master: %+v", f)
	}
	w.wantSection(masterServer, api.PersistentVolumesPresent)
}

func TestAKeyJoinsTheStartAtWork(t *testing.T) {
	w := registered(t)
	r := heal(api.PhaseStart, nil, storageServer)
	r.IdempotencyKey = "heal-1"
	first := w.post(r)
	if joined := w.post(r); joined.ID != first.ID || joined.State != api.Processing {
		t.Errorf("the key gives %+v, want %s in progress", joined, first.ID)
	}
	w.absent()
	if done := w.post(r); done.ID != first.ID || done.State != api.Completed {
		t.Errorf("the key gives %+v, want %s, which is over", done, first.ID)
	}
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	if anew := w.post(r); anew.ID == first.ID || anew.State != api.Processing {
		t.Errorf("after it was taken back the key gives %+v, want a new one", anew)
	}
}

// Tacker's retry of a HEAL whose END has failed begins with the START, before Heat replaces
// the storage server once more. The END had the volumes registered again.
func TestAKeyBeginsAnotherStartAfterItsEndHasFailed(t *testing.T) {
	w := registered(t)
	r, end := heal(api.PhaseStart, nil, storageServer), heal(api.PhaseEnd, full(), storageServer)
	r.IdempotencyKey, end.IdempotencyKey = "heal-1 START", "heal-1 END"
	first := w.post(r)
	w.absent()
	w.wantState(first, api.Completed)
	op := w.post(end)
	if again := w.post(r); again.ID != first.ID || !again.Joined { // late, and the END is in progress
		t.Errorf("the key gives %+v, want %s", again, first.ID)
	}
	if _, err := w.LCM.Operations.CancelOperation(w.ctx, instanceID, op.Sequence, "the driver, at its deadline"); err != nil {
		t.Fatal(err)
	}
	w.converge(storageServer)
	w.wantSection(masterServer, api.PersistentVolumesPresent)

	second := w.post(r)
	if second.ID == first.ID || second.State != api.Processing {
		t.Errorf("after its END has failed the key gives %+v, want another attempt", second)
	}
	w.wantSection(masterServer, api.PersistentVolumesAbsent)
	w.absent()
	w.wantState(second, api.Completed)
	op = w.post(end)
	w.converge(storageServer, masterServer, workerServer)
	w.wantState(op, api.Completed)
	if again := w.post(r); again.ID != second.ID || !again.Joined {
		t.Errorf("after its END has succeeded the key gives %+v, want %s", again, second.ID)
	}
}

// What was said of a generation that is past says nothing of the present one, though the
// content be the same: in between the volumes were made again.
func TestAnAnswerToAnEarlierStartIsNoneToThisOne(t *testing.T) {
	w := registered(t)
	w.post(heal(api.PhaseStart, nil, storageServer))
	early := w.status(masterServer)
	early.Condition(api.ConditionPersistentVolumesRegistered).Reason = api.ReasonAbsent
	w.report(masterServer, early)
	w.Clock.Advance(time.Hour)
	w.must(w.LCM.Sweep(w.ctx))
	w.converge(storageServer, masterServer)
	ready := w.status(masterServer)
	second := w.post(heal(api.PhaseStart, nil, storageServer))
	w.report(masterServer, early)
	w.wantState(second, api.Processing)
	w.says(masterServer, api.ConditionFalse, api.ReasonInUse, "pv1 is bound")
	w.wantState(second, api.Failed)
	w.report(masterServer, ready)
	if n := w.node(masterServer); n.Ready {
		t.Errorf("%+v is ready by what it was before the START", n)
	}
	w.converge(masterServer)
	if n := w.node(masterServer); !n.Ready {
		t.Errorf("%+v is not ready", n)
	}
}

func TestARestartAtEveryPointOfAHealChangesNothing(t *testing.T) {
	w := registered(t)
	steps := []func(){
		func() { w.post(heal(api.PhaseStart, nil, storageServer)) },
		func() { w.says(masterServer, api.ConditionFalse, api.ReasonStuckTerminating, "pv1 is not gone") },
		w.absent,
		func() { w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer)) },
		func() { w.converge(uuid(1, 2)) },
		func() { w.converge(masterServer) },
	}
	want := []struct {
		op      api.OperationState
		section api.PersistentVolumesSectionState
	}{
		{api.Processing, api.PersistentVolumesAbsent}, {api.Processing, api.PersistentVolumesAbsent}, {api.Completed, api.PersistentVolumesAbsent},
		{api.Processing, ""}, {api.Processing, api.PersistentVolumesPresent}, {api.Completed, api.PersistentVolumesPresent},
	}
	for i, step := range steps {
		step()
		before := w.operations()
		w.restart()
		if after := w.operations(); !store.Same(before, after) || after[0].State != want[i].op {
			t.Fatalf("after step %d and a restart the operations are %+v, before it %+v; want %s", i, after, before, want[i].op)
		}
		w.wantSection(masterServer, want[i].section)
	}
}

func TestAWithdrawalWhoseMasterIsLostGoesToAnother(t *testing.T) {
	w := registered(t)
	second := uuid(2, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "master"))
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.converge(second)
	start := w.post(heal(api.PhaseStart, nil, storageServer))
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(second)
		w.must(w.LCM.Sweep(w.ctx))
	}
	w.wantSection(masterServer, "")
	w.wantSection(second, api.PersistentVolumesAbsent)
	if got := w.wantState(start, api.Processing); len(got.Targets) != 1 || got.Targets[0].NodeID != second {
		t.Errorf("it waits for %+v, want the master that is left", got.Targets)
	}
	w.says(second, api.ConditionTrue, api.ReasonAbsent, "")
	w.wantState(start, api.Completed)
}

// A master that leaves keeps its identity until the END, and keeps its last document.
func TestAMasterThatLeavesRegistersNothingAnyMore(t *testing.T) {
	w := registered(t)
	second := uuid(2, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "master"))
	w.post(scale(api.ScaleOut, api.PhaseEnd, grown))
	w.converge(second)
	w.put(withVolumes(topologyOf(server(storageServer, "storage"), server(second, "master"), server(workerServer, "worker"))))
	if n := w.node(masterServer); n.State != api.NodeEnrolled {
		t.Fatalf("%+v, want it to be let in still", n)
	}
	w.wantSection(masterServer, "")
	w.wantSection(second, api.PersistentVolumesPresent)
}

func TestAMasterThatEnrollsAndIsNeverHeardOfAgainIsMissed(t *testing.T) {
	w := newWorld(t)
	second := uuid(2, 2)
	grown := full()
	grown.Servers = append(grown.Servers, server(second, "master"))
	w.put(withVolumes(grown))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	w.must(w.LCM.Sweep(w.ctx)) // the controller runs
	w.must(w.enroll(masterServer))
	w.converge(second, storageServer)
	w.wantSection(masterServer, api.PersistentVolumesPresent)
	for range 4 {
		w.Clock.Advance(30 * time.Second)
		w.LCM.Nodes.Seen(second)
		w.LCM.Nodes.Seen(storageServer)
		w.must(w.LCM.Sweep(w.ctx))
	}
	w.wantSection(second, api.PersistentVolumesPresent)
}

// The first report of a document may bring conditions that were found for the one before.
func TestAConditionOfTheDocumentBeforeIsNoAnswer(t *testing.T) {
	w := registered(t)
	start := w.post(heal(api.PhaseStart, nil, storageServer))
	s := w.status(masterServer)
	c := s.Condition(api.ConditionPersistentVolumesRegistered)
	c.Reason, c.ObservedGeneration = api.ReasonAbsent, s.ObservedGeneration-1
	w.report(masterServer, s)
	w.wantState(start, api.Processing)
	c.ObservedGeneration++
	w.report(masterServer, s)
	w.wantState(start, api.Completed)
}

func TestOtherContentOfAManifestReachesTheMaster(t *testing.T) {
	w := registered(t)
	w.Clock.Advance(time.Second)
	w.upload(manifestFile, manifestOf("pv2"))
	if s := w.section(masterServer); s == nil || len(s.Manifests) != 1 || !strings.Contains(string(s.Manifests[0]), `"name":"pv2"`) {
		t.Fatalf("after another upload the section is %+v", s)
	}
	if n := w.node(masterServer); n.Ready {
		t.Error("the master is ready before it has registered the other volume")
	}
	w.Clock.Advance(time.Second)
	w.upload(manifestFile, "no manifest")
	if n := w.node(masterServer); w.section(masterServer) != nil || len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing {
		t.Errorf("after a faulty upload: %+v", n)
	}
}

func TestAManifestMayComeBeforeTheParametersThatNameIt(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	w.upload(script, "#!/bin/sh\n")
	w.upload(manifestFile, manifestOf("pv1"))
	w.converge(storageServer)
	w.put(withVolumes(nil))
	if s := w.section(masterServer); s == nil || len(s.Manifests) != 1 {
		t.Errorf("the section is %+v", s)
	}
}

// A store that an older controller wrote has validated files without their manifests.
func TestManifestsOfAnOlderStoreAreReadAtTheStart(t *testing.T) {
	w := registered(t)
	before := w.node(masterServer)
	w.must(w.Store.Update(func(tx *store.Tx) error {
		for _, path := range []string{script, manifestFile} {
			f, _, err := tx.Files().Get(store.FileKey(instanceID, path))
			w.must(err)
			f.ValidatedFor, f.Manifests = strings.Repeat("a", 32), nil
			w.must(tx.Files().Put(store.FileKey(instanceID, path), f))
		}
		return nil
	}))
	w.restart()
	if after := w.node(masterServer); after.Generation != before.Generation || after.Digest != before.Digest || !after.Ready {
		t.Errorf("after the restart %+v, before it %+v", after, before)
	}
}

func TestScaleInNamesWhoLeavesAndWithdrawsNothing(t *testing.T) {
	w := registered(t)
	start := scale(api.ScaleIn, api.PhaseStart, nil)
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, start)
	if f := w.faults(err); len(f) != 1 || f[0].Pointer != "/vnfcInstanceIds" {
		t.Errorf("a SCALE_IN that names no VNFC: %+v", f)
	}
	start.VnfcInstanceIds = []string{"vnfc-" + workerServer}
	w.wantState(w.post(start), api.Completed)
	w.wantSection(masterServer, api.PersistentVolumesPresent)
}

func TestAHealWithoutAStartWaitsForTheMasterToo(t *testing.T) {
	w := registered(t)
	end := w.post(heal(api.PhaseEnd, healed(uuid(1, 2)), storageServer))
	w.wantSection(masterServer, "")
	if ids := reconcile.TargetIDs(end.Targets); !slices.Contains(ids, masterServer) {
		t.Errorf("targets %v lack the master, from which the volumes are withheld", ids)
	}
	w.converge(uuid(1, 2))
	w.wantState(end, api.Processing)
	w.wantSection(masterServer, api.PersistentVolumesPresent)
	w.converge(masterServer)
	w.wantState(end, api.Completed)
}

// The master's document is as the first attempt left it, and the retry is not about the
// master: it waits for the master anyway.
func TestARetryWaitsForTheNodesWhoseDocumentsTheFailedAttemptChanged(t *testing.T) {
	w := registered(t)
	replacement := uuid(1, 2)
	first := w.post(heal(api.PhaseEnd, healed(replacement), storageServer))
	if ids := reconcile.TargetIDs(first.Targets); !slices.Contains(ids, masterServer) {
		t.Fatalf("targets %v lack the master", ids)
	}
	w.Clock.Advance(31 * time.Minute)
	w.must(w.LCM.Sweep(w.ctx))
	w.wantState(first, api.Failed)
	before := w.node(masterServer).Generation
	retry := w.post(heal(api.PhaseEnd, healed(replacement), storageServer))
	if after := w.node(masterServer).Generation; after != before {
		t.Fatalf("the retry changed the master's document (%d to %d), so that the test shows nothing", before, after)
	}
	if ids := reconcile.TargetIDs(retry.Targets); !slices.Contains(ids, masterServer) {
		t.Errorf("targets %v lack the master, which the failed attempt waited for", ids)
	}
}

// A storage server that was lost counts again with its next call, though that has nothing
// new to say.
func TestAStorageServerThatIsBackIsHeardAtOnce(t *testing.T) {
	w := registered(t)
	w.post(heal(api.PhaseStart, nil, storageServer))
	w.absent()
	w.Clock.Advance(2 * time.Minute)
	w.LCM.Nodes.Seen(masterServer)
	w.must(w.LCM.Sweep(w.ctx))
	w.post(request(api.Instantiate, api.PhaseEnd)) // takes the withdrawal back
	w.wantSection(masterServer, "")
	w.LCM.Nodes.Seen(storageServer)
	w.wantSection(masterServer, api.PersistentVolumesPresent)
}

// A PUT brought the new storage server, so that the END itself changes nothing for the
// master. What it is given during the END it has to do before that is over.
func TestAnEndWaitsForWhatItHasReleased(t *testing.T) {
	w := registered(t)
	w.put(withVolumes(healed(uuid(1, 2))))
	end := w.post(heal(api.PhaseEnd, nil, storageServer))
	if ids := reconcile.TargetIDs(end.Targets); !slices.Equal(ids, []string{uuid(1, 2)}) {
		t.Fatalf("targets %v, want the new storage server", ids)
	}
	w.converge(uuid(1, 2))
	if got := w.wantState(end, api.Processing); !slices.Contains(reconcile.TargetIDs(got.Targets), masterServer) {
		t.Errorf("targets %+v, want the master too", got.Targets)
	}
	w.converge(masterServer)
	w.wantState(end, api.Completed)
}
