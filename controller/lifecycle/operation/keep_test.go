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

// replacement is the server that takes the place of the storage server.
var replacement = lifecycletest.UUID(1, 2)

func healStart() api.OperationRequest {
	return lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.StorageServer)
}

func healEnd() api.OperationRequest {
	return lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement), lifecycletest.StorageServer)
}

// volumesOf wants the document of a server to name the volume, or not to.
func wantVolume(w *lifecycletest.World, nodeID string, want bool) {
	w.Helper()
	if s := w.Document(nodeID).Storage; (s != nil) != want {
		w.Fatalf("the storage section of %s is %+v, want one: %v", nodeID, s, want)
	}
}

func TestAHealThatKeepsPersistentVolumesWaitsForTheOldServer(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	if s := w.Document(lifecycletest.StorageServer).Storage; s.ClientRecords != "/volume/.nodehitch/nfs-clients" {
		t.Errorf("the clients' record is at %q", s.ClientRecords)
	}
	before := w.Node(lifecycletest.MasterServer).Generation
	start := w.WantState(w.Post(healStart()), api.Completed)
	if start.PersistentVolumes != api.KeepPersistentVolumes {
		t.Errorf("the START says %q of the PersistentVolumes", start.PersistentVolumes)
	}
	end := w.Post(healEnd())
	w.Must(w.Enroll(replacement))
	wantVolume(w, replacement, false)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	w.Restart()
	w.Source = cloud
	w.Lifecycle.Instances.Observer.Source = cloud
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	wantVolume(w, replacement, false)
	if got := w.Operation(end.ID).Targets[0]; got.Reason != api.ReasonOldServerMayWrite {
		t.Errorf("the END waits for %+v", got)
	}
	cloud.Replaced(replacement)
	w.Clock.Advance(lifecycletest.ShortestPause)
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	wantVolume(w, replacement, true)
	w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesPresent)
	w.WantState(end, api.Processing)
	w.Converge(replacement)
	w.WantState(end, api.Completed)
	if after := w.Node(lifecycletest.MasterServer).Generation; after != before {
		t.Errorf("the master's document is generation %d, and was %d", after, before)
	}
}

func TestAnOperatorStatesThatTheOldServerIsOff(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.Post(healStart())
	end := w.Post(healEnd())
	wantVolume(w, replacement, false)
	w.MustCancel(end)
	w.Ctx = event.Context(w.Ctx, func() string { return lifecycletest.Operator })
	end = w.Post(off(healEnd()))
	wantVolume(w, replacement, true)
	if end.OldServerIsOffBy != lifecycletest.Operator || end.PersistentVolumes != api.KeepPersistentVolumes {
		t.Errorf("the END is %+v", end)
	}
	happened, err := w.Events.List(event.Query{Limit: 1000})
	w.Must(err)
	if !slices.ContainsFunc(happened.Items, func(e api.Event) bool {
		return e.OperationID == end.ID && strings.Contains(e.Message, "keep, "+lifecycletest.Operator+" stated that the storage server "+lifecycletest.StorageServer+" is off")
	}) {
		t.Errorf("no event says who stated it: %+v", happened.Items)
	}
	w.Must(w.Enroll(replacement))
	w.Converge(replacement)
	w.WantState(end, api.Completed)
}

// saying is the request with a word on the PersistentVolumes.
func saying(r api.OperationRequest, v api.PersistentVolumesAtHeal) api.OperationRequest {
	r.PersistentVolumes = v
	return r
}

func off(r api.OperationRequest) api.OperationRequest {
	r.OldServerIsOff = true
	return r
}

// wantFaults wants the request to be refused with these faults, each as pointer and a part of
// its message, and nothing to change.
func wantFaults(t *testing.T, w *lifecycletest.World, r api.OperationRequest, want ...string) {
	t.Helper()
	var err error
	if w.Writes(func() { _, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, r) }) {
		t.Error("a request that is refused changed something")
	}
	found := faults(w, err)
	if len(found) != len(want) {
		t.Fatalf("%d faults, want %d:\n%v", len(found), len(want), found)
	}
	for i, f := range found {
		pointer, says, _ := strings.Cut(want[i], " ")
		if f.Pointer != pointer || !strings.Contains(f.Message, says) {
			t.Errorf("fault %d is %v, want %s", i, f, want[i])
		}
	}
}

func TestWhereAWordOnPersistentVolumesBelongs(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	const keep, withdraw = api.KeepPersistentVolumes, api.WithdrawPersistentVolumes
	all := []string{lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer}
	for name, c := range map[string]struct {
		r    api.OperationRequest
		want []string
	}{
		"another operation":  {off(saying(lifecycletest.Request(api.Instantiate, api.PhaseStart), keep)), []string{"/oldServerIsOff belongs to HEAL", "/persistentVolumes belongs to HEAL"}},
		"no such word":       {saying(healStart(), "drop"), []string{`/persistentVolumes is "drop"`}},
		"the entire VNF":     {off(saying(lifecycletest.Heal(api.PhaseStart, nil), keep)), []string{"/oldServerIsOff names the storage server", "/persistentVolumes names the storage server"}},
		"all servers":        {saying(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), all...), withdraw), []string{"/persistentVolumes names the storage server"}},
		"a worker":           {saying(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.WorkerServer), keep), []string{"/persistentVolumes names the storage server"}},
		"off, and withdrawn": {off(saying(healStart(), withdraw)), []string{"/oldServerIsOff are not kept"}},
		"an END alone":       {saying(healEnd(), withdraw), []string{"/persistentVolumes no START of a HEAL withdrew them"}},
	} {
		t.Run(name, func(t *testing.T) { wantFaults(t, w, c.r, c.want...) })
	}
	w = lifecycletest.Registered(t)
	wantFaults(t, w, saying(healStart(), keep), `/persistentVolumes the parameters do not have persistent_volumes_at_heal "keep"`)
	wantFaults(t, w, off(healStart()), "/oldServerIsOff are not kept")
	if start := w.Post(healStart()); start.State != api.Processing || start.PersistentVolumes != "" {
		t.Errorf("what the specification says is %+v", start)
	}
}

// An END does what its START did, and none contradicts it.
func TestAnEndTakesTheWordOfItsStart(t *testing.T) {
	const keep, withdraw = api.KeepPersistentVolumes, api.WithdrawPersistentVolumes
	w, _ := lifecycletest.Keeping(t)
	w.Post(healStart())
	wantFaults(t, w, saying(healEnd(), withdraw), `/persistentVolumes (HEAL START) took "keep"`)
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")}) // means the next heal
	if end := w.Post(healEnd()); end.PersistentVolumes != keep {
		t.Errorf("the END says %q", end.PersistentVolumes)
	}
	wantVolume(w, replacement, false)

	w, _ = lifecycletest.Keeping(t)
	start := w.Post(saying(healStart(), withdraw))
	if w.WantSection(lifecycletest.MasterServer, api.PersistentVolumesAbsent); start.State != api.Processing || start.PersistentVolumes != withdraw {
		t.Fatalf("a HEAL that withdraws is %+v", start)
	}
	w.ReportAbsent()
	w.WantState(start, api.Completed)
	wantFaults(t, w, saying(healEnd(), keep), `/persistentVolumes (HEAL START) took "withdraw"`)
	if end := w.Post(healEnd()); end.PersistentVolumes != withdraw {
		t.Errorf("the END says %q", end.PersistentVolumes)
	}
	wantVolume(w, replacement, true) // no client writes, so the specification's heal waits for nobody
}

// A START says everything that is in the way, before anything is touched.
func TestWhatStandsInTheWayOfKeepingPersistentVolumes(t *testing.T) {
	member := func(s *api.Topology) {
		s.Servers[0].MemberStackID, s.Volumes[0].MemberStackID = lifecycletest.MemberStack, lifecycletest.MemberStack
		s.Servers[0].ConnectionPoints[0].MemberStackID = lifecycletest.MemberStack
	}
	for name, c := range map[string]struct {
		change func(*lifecycletest.World, *lifecycletest.Cloud)
		off    bool
		want   []string
	}{
		"all goes with the server": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { member(c.Stacks[lifecycletest.StackOne]) }, false, []string{
			`/persistentVolumes point to 10.10.0.5 of "storage_server_CP", a port in the nested stack`, `/persistentVolumes the volume "storage_server_volume" stands in the nested stack`}},
		"all goes with another server": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			member(c.Stacks[lifecycletest.StackOne])
			c.Stacks[lifecycletest.StackOne].Servers[0].MemberStackID = ""
		}, false, nil},
		"no address, no volume": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			s := c.Stacks[lifecycletest.StackOne]
			s.Servers[0].ConnectionPoints[0].Addresses, s.Servers[0].VolumeIds, s.Volumes = nil, nil, nil
		}, true, []string{`/persistentVolumes nfs_server_cp "storage_server_CP" is no connection point`, `/persistentVolumes the volume "storage_server_volume" is not in the topology`,
			"/persistentVolumes has no configuration yet"}},
		"the server has left": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.Stacks[lifecycletest.StackOne] = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"))
		}, false, []string{"/persistentVolumes the topology no longer has the storage server"}},
		"NFSv3": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Upload(lifecycletest.ManifestFile, strings.Replace(lifecycletest.ManifestOf("pv1"), "spec: {", "spec: {mountOptions: [hard, 'rsize=4096,nfsvers=3'], ", 1))
		}, false, []string{`/persistentVolumes PersistentVolume pv1 has the mount option "nfsvers=3"`}},
		"its record may not be on the volume yet": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")})
			w.Put(api.InstanceSpec{AdditionalParams: json.RawMessage(strings.Replace(string(lifecycletest.KeepingParameters()), "10.10.0.0/24", "10.20.0.0/24", 1))})
		}, false, []string{"/persistentVolumes does not serve /volume/nfs/pv1 yet"}},
		"no cloud": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Source, w.Lifecycle.Instances.Observer.Source = stack.Inline{}, stack.Inline{}
		}, false, []string{"/persistentVolumes no cloud is configured"}},
		"no cloud, and off": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Source, w.Lifecycle.Instances.Observer.Source = stack.Inline{}, stack.Inline{}
		}, true, nil},
		"the cloud is away":          {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { c.Away = lifecycletest.Unreachable() }, false, []string{"/persistentVolumes Heat does not answer"}},
		"the cloud is away, and off": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { c.Away = lifecycletest.Unreachable() }, true, nil},
		"Cinder does not show the volume": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) { c.Left = &stack.Remains{} }, false,
			[]string{"/persistentVolumes Cinder does not show the volume " + lifecycletest.Volume}},
		"Nova no longer has the server": {func(_ *lifecycletest.World, c *lifecycletest.Cloud) {
			c.Left = &stack.Remains{Volumes: map[string][]string{lifecycletest.Volume: nil}}
		}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			c.change(w, cloud)
			r := healStart()
			if c.off {
				r = off(r)
			}
			if c.want == nil {
				w.WantState(w.Post(r), api.Completed)
				return
			}
			wantFaults(t, w, r, c.want...)
		})
	}
}

// What an END of a kept heal brings that would lead PersistentVolumes elsewhere is not in force.
func TestAnEndThatStrandsPersistentVolumes(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.ReportBound(api.BoundPersistentVolume{Name: "pv1", Server: "10.10.0.5", Claim: "shop/data"})
	w.Post(healStart())
	cloud.Replaced(replacement)
	moved, other := healEnd(), healEnd()
	moved.Topology.Servers[0].ConnectionPoints[0].Addresses = []string{"10.10.0.77"}
	end := w.WantState(w.Post(moved), api.Failed)
	w.WantRefused(end.Error, api.ProblemVolumesStranded, "PersistentVolume pv1, bound by claim shop/data, points to 10.10.0.5, and the new storage server has 10.10.0.77")
	other.Topology.Volumes[0].ID, other.Topology.Servers[0].VolumeIds = lifecycletest.UUID(9, 2), []string{lifecycletest.UUID(9, 2)}
	wantFaults(t, w, other, "/topology/volumes/0/id are kept are on "+lifecycletest.Volume)
	if s := w.Section(lifecycletest.MasterServer); s.State != api.PersistentVolumesPresent || s.Servers[0] != "10.10.0.5" {
		t.Errorf("the master is told %+v", s)
	}
	end = w.Post(healEnd()) // with the old address given back
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	w.Must(w.Enroll(replacement))
	w.Converge(replacement)
	w.WantState(end, api.Completed)
}

// Stranded PersistentVolumes are withdrawn by the address that they point to, although the START finds the
// new one in the stack: others made some of them, or a manifest that is no longer there.
func TestStrandedPersistentVolumesAreWithdrawn(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.ReportBound(api.BoundPersistentVolume{Name: "pv1", Server: "10.10.0.5", Claim: "shop/data"})
	w.Post(off(healStart()))
	moved := healEnd()
	moved.Topology.Servers[0].ConnectionPoints[0].Addresses = []string{"10.10.0.77"}
	cloud.Stacks[lifecycletest.StackOne] = moved.Topology
	w.WantRefused(w.WantState(w.Post(moved), api.Failed).Error, api.ProblemVolumesStranded, "shop/data")
	w.ReportBound()
	wantFaults(t, w, saying(healStart(), api.WithdrawPersistentVolumes), "/vnfcInstanceIds name the one that it has now")
	start := w.Post(saying(lifecycletest.Heal(api.PhaseStart, nil, replacement), api.WithdrawPersistentVolumes))
	if s := w.Section(lifecycletest.MasterServer); s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, []string{"10.10.0.5", "10.10.0.77"}) {
		t.Errorf("the master is asked for %+v", s)
	}
	w.ReportAbsent()
	w.WantState(start, api.Completed)
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, moved.Topology, replacement))
	w.Must(w.Enroll(replacement))
	w.Converge(replacement)
	w.Converge(lifecycletest.MasterServer)
	w.WantState(end, api.Completed)
	if s := w.Section(lifecycletest.MasterServer); s.State != api.PersistentVolumesPresent || !slices.Equal(s.Servers, []string{"10.10.0.77"}) {
		t.Errorf("the master is told %+v", s)
	}
}

// The master may be the first to find that a PersistentVolume points elsewhere.
func TestAnEndWhoseMasterFindsAStrandedPersistentVolume(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	w.Post(off(healStart()))
	w.ReportFailed(lifecycletest.MasterServer, api.ConditionPersistentVolumesRegistered, api.ReasonSourceImmutable, "pv1 is Bound, by claim shop/data")
	end := w.Post(healEnd())
	w.Converge(replacement)
	w.WantState(end, api.Processing)
	w.Wait(lifecycletest.Grace)
	w.Wait(api.LongestRetry)
	w.WantRefused(w.WantState(end, api.Failed).Error, api.ProblemVolumesStranded, "claim shop/data", "Nothing was deleted")
}

// Whoever gets to know the new server first, no document names the volume before the old one is gone.
func TestNoDocumentNamesTheVolumeWhileAnotherServerMayWrite(t *testing.T) {
	third := lifecycletest.UUID(1, 3)
	for name, c := range map[string]struct {
		do func(*lifecycletest.World, *lifecycletest.Cloud)
		// reaches is the server that is told of the volume.
		reaches string
	}{
		"an END alone": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) { w.Post(healEnd()) }, lifecycletest.StorageServer},
		"a PUT": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: lifecycletest.HealedTopology(replacement)})
		}, lifecycletest.StorageServer},
		"a PUT that no longer keeps them": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(healEnd())
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")})
		}, lifecycletest.StorageServer},
		"off, by parameters that no longer keep them": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.10.0.0/24")})
			w.MustCancel(w.Post(healEnd()))
			w.Post(off(healEnd()))
		}, replacement},
		"another operation": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, lifecycletest.HealedTopology(replacement)))
		}, lifecycletest.StorageServer},
		"replaced twice": {func(w *lifecycletest.World, cloud *lifecycletest.Cloud) {
			w.MustCancel(w.Post(healEnd()))
			cloud.Stacks[lifecycletest.StackOne] = lifecycletest.HealedTopology(replacement)
			w.Post(lifecycletest.Heal(api.PhaseStart, nil, replacement))
			w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(third), replacement))
		}, lifecycletest.StorageServer},
		"the old one comes back": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.MustCancel(w.Post(healEnd()))
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: lifecycletest.FullTopology()})
		}, lifecycletest.StorageServer},
		"an END without names": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.HealedTopology(replacement)))
		}, lifecycletest.StorageServer},
		"off by the word of the START": {func(w *lifecycletest.World, _ *lifecycletest.Cloud) {
			w.Post(off(healStart()))
			if end := w.Post(healEnd()); end.OldServerIsOffBy == "" {
				t.Errorf("the END is %+v", end)
			}
		}, replacement},
	} {
		t.Run(name, func(t *testing.T) {
			w, cloud := lifecycletest.Keeping(t)
			c.do(w, cloud)
			for _, id := range w.StorageDocuments() {
				if id != c.reaches && id != lifecycletest.StorageServer {
					t.Errorf("the document of %s names the volume", id)
				}
			}
			if c.reaches == replacement {
				return
			}
			for _, s := range w.Instance().Topology.Servers {
				if s.Name == "storage" && s.ID != c.reaches {
					cloud.Replaced(s.ID)
					w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
					wantVolume(w, s.ID, true)
				}
			}
		})
	}
}

// The END fails at its deadline as others do, with what the cloud shows, and its repetition goes on.
func TestAnEndThatWaitsForTheOldServerFailsAtItsDeadline(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	w.Post(healStart())
	end := w.Post(healEnd())
	w.Must(w.Enroll(replacement))
	asked := cloud.Asks(func() {
		for range 60 {
			w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
			w.Wait(time.Second)
		}
	})
	if asked != 3 { // at once, after 10 seconds and 20 more
		t.Errorf("the cloud was asked %d times in a minute", asked)
	}
	w.Wait(time.Hour)
	w.WantRefused(w.WantState(end, api.Failed).Error, api.ProblemDeadline, api.ReasonOldServerMayWrite, "storage ("+lifecycletest.StorageServer+")", "Nova shows it as ACTIVE",
		"attached to "+lifecycletest.StorageServer, "oldServerIsOff")
	end = w.Post(healEnd())
	if end.PersistentVolumes != api.KeepPersistentVolumes {
		t.Errorf("the repetition is %+v", end)
	}
	cloud.Away = lifecycletest.Unreachable()
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	if got := w.Operation(end.ID).Targets; !strings.Contains(got[0].Message, "Heat does not answer") {
		t.Errorf("it waits for %+v", got)
	}
	cloud.Away = nil
	cloud.Replaced(replacement)
	w.Clock.Advance(time.Minute)
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	w.Converge(replacement)
	w.WantState(end, api.Completed)
	if asked := cloud.Asks(func() { w.Clock.Advance(time.Hour); w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx)) }); asked != 0 {
		t.Errorf("the cloud was asked %d times for nothing", asked)
	}
}

// A server that is silent may run where Nova does not reach it.
func TestAStartWarnsOfAStorageServerThatIsSilent(t *testing.T) {
	w, _ := lifecycletest.Keeping(t)
	if start := w.Post(healStart()); len(start.Warnings) > 0 {
		t.Errorf("the START warns of a server that is heard of: %v", start.Warnings)
	}
	w.FallSilent(lifecycletest.StorageServer)
	if start := w.Post(healStart()); !lifecycletest.HasFault(start.Warnings, "/persistentVolumes", "power that hypervisor off") {
		t.Errorf("the START warns of %v", start.Warnings)
	}
}
