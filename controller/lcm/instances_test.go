package lcm_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestANewInstanceSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	instance, created, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, spec(nil))
	w.must(err)
	if !created || instance.State != api.NotInstantiated || instance.Kind != api.KubernetesCluster || instance.DesiredVersion != 1 {
		t.Errorf("instance %+v (created %v)", instance, created)
	}
	if want := []string{script}; !slices.Equal(instance.MissingFiles, want) {
		t.Errorf("missing files %v, want %v", instance.MissingFiles, want)
	}
	if strings.Contains(string(instance.AdditionalParams), "s3cr3t") {
		t.Errorf("a secret is shown: %s", instance.AdditionalParams)
	}
	if _, err := w.Enrollment.JoinToken(w.ctx, instanceID); err != nil {
		t.Errorf("no join token: %v", err)
	}
}

func TestTheSameContentAgainWritesNothing(t *testing.T) {
	w := newWorld(t)
	before := w.put(spec(full()))
	other := spec(full())
	var reordered map[string]any
	w.must(json.Unmarshal(other.AdditionalParams, &reordered))
	spaced, err := json.MarshalIndent(reordered, "", "    ")
	w.must(err)
	other.AdditionalParams = spaced
	other.Topology.Servers[0].ID = strings.ToUpper(storageServer)
	for name, again := range map[string]api.InstanceSpec{
		"as it was": spec(full()), "spaced and ordered otherwise": other, "without the topology": spec(nil),
	} {
		var after api.Instance
		if w.writes(func() { after = w.put(again) }) {
			t.Errorf("%s: the store was written", name)
		}
		if after.DesiredVersion != before.DesiredVersion || after.Topology == nil {
			t.Errorf("%s: version %d with topology %v, want %d as before", name, after.DesiredVersion, after.Topology, before.DesiredVersion)
		}
	}
}

func TestOtherParametersReachTheNodesThatTheyConcern(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	changed, stop := w.Hub.Watch(storageServer)
	defer stop()
	unchanged, stopMaster := w.Hub.Watch(masterServer)
	defer stopMaster()
	other := spec(nil)
	other.AdditionalParams = parameters("10.20.0.0/24")
	if got := w.put(other).DesiredVersion; got != 2 {
		t.Errorf("desired version %d, want 2", got)
	}
	config, digest, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
	w.must(err)
	if config.Generation != 2 || config.Storage.Exports[0].Client != "10.20.0.0/24" || digest != config.Digest() {
		t.Errorf("document %+v with digest %s", config, digest)
	}
	if n := w.node(masterServer); n.Generation != 1 {
		t.Errorf("the master's generation is %d; nothing of its document changed", n.Generation)
	}
	if !woken(changed) || woken(unchanged) {
		t.Errorf("poll of the storage server woken: %v, of the master: %v; want the first alone", woken(changed), woken(unchanged))
	}
}

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAllFaultsOfAPutAreReportedAndNothingIsKept(t *testing.T) {
	w := newWorld(t)
	bad := spec(full())
	bad.AdditionalParams = json.RawMessage(`{"k8s_cluster_installation_param": {}}`)
	bad.Topology.Servers[0].ID = "storage"
	bad.VimConnectionInfo, bad.StackID = json.RawMessage(`{}`), stackTwo
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, bad)
	w.refused(err, api.ProblemInvalid, `"master_node", which is required`,
		"/topology/servers/0/id", "/vimConnectionInfo", "/topology/stackId")
	_, err = w.LCM.Instances.GetInstance(w.ctx, instanceID)
	w.refused(err, api.ProblemNotFound, "no VNF instance "+instanceID, "hitchctl apply")
}

func TestATopologyThatTheParametersMakeAmbiguousIsRefused(t *testing.T) {
	w := newWorld(t)
	twice := topologyOf(server(storageServer, "storage"), server(uuid(1, 2), "storage"))
	twice.Servers[1].VolumeIds = nil
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, spec(twice))
	w.refused(err, api.ProblemInvalid, "/topology/servers/1", "second storage server")

	w.put(spec(full()))
	moved := spec(nil)
	moved.AdditionalParams = json.RawMessage(strings.ReplaceAll(string(moved.AdditionalParams), "storage_server_CP", "workerNode_CP2"))
	moved.AdditionalParams = json.RawMessage(strings.Replace(string(moved.AdditionalParams), `"workerNode_CP2", "nic_cp_name": "workerNode_CP2"`, `"other", "nic_cp_name": "other"`, 1))
	_, _, err = w.LCM.Instances.PutInstance(w.ctx, instanceID, moved)
	w.refused(err, api.ProblemInvalid, "/additionalParams: worker")
}

func TestAnIDIsForOneKindOfVNFAndAServerForOneInstance(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, registrySpec())
	w.refused(err, api.ProblemConflict, "KubernetesCluster", "PrivateRegistry")
	_, _, err = w.LCM.Instances.PutInstance(w.ctx, uuid(7, 7), spec(full()))
	w.refused(err, api.ProblemInvalid, "/topology/servers/0/id", "belongs to VNF instance "+instanceID)
}

func TestAVolumeIsInOneDocumentAtATime(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	second, theirs := uuid(7, 7), uuid(1, 2)
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, second, spec(topologyOf(server(theirs, "storage"))))
	w.must(err)
	n := w.node(theirs)
	if len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonMultiAttached || !strings.Contains(n.Withheld[0].Message, instanceID) {
		t.Fatalf("withheld %+v, want the volume that instance %s has", n.Withheld, instanceID)
	}
	if v, err := w.Permits.Get(w.ctx, volume); err != nil || v.NodeID != storageServer || v.VnfInstanceID != instanceID {
		t.Errorf("volume %+v, %v; want it with %s", v, err, storageServer)
	}
	w.post(request(api.Terminate, api.PhaseEnd))
	if n := w.node(theirs); len(n.Withheld) != 0 {
		t.Errorf("the volume is free and still withheld: %+v", n.Withheld)
	}
	if v, err := w.Permits.Get(w.ctx, volume); err != nil || v.NodeID != theirs || v.VnfInstanceID != second {
		t.Errorf("volume %+v, %v; want it with %s", v, err, theirs)
	}
}

func TestAnAdoptedFilesystemReachesTheDocument(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	adopted := "0b6ab447-1111-4222-8333-000000000001"
	_, err := w.Permits.Adopt(w.ctx, volume, adopted)
	w.must(err)
	config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
	w.must(err)
	if got := config.Storage.Volumes[0].FilesystemUUID; got != adopted || config.Generation != 2 {
		t.Errorf("filesystem %s in generation %d, want %s in 2", got, config.Generation, adopted)
	}
}

// The document tells the agent at once that it is worth asking, and no longer than
// that is so.
func TestAReformatReachesTheDocumentAndLeavesIt(t *testing.T) {
	for name, end := range map[string]func(*world){
		"when it is used": func(w *world) {
			r := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume)}
			granted, err := w.Permits.Report(w.ctx, storageServer, volume, r)
			w.must(err)
			for _, r.Phase = range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
				r.Permit = granted.Permit
				_, err := w.Permits.Report(w.ctx, storageServer, volume, r)
				w.must(err)
			}
		},
		"when its node goes": func(w *world) {
			w.must(w.Store.Update(func(tx *store.Tx) error { return w.Permits.NodeGone(tx, storageServer) }))
		},
		"when the volume is adopted": func(w *world) {
			_, err := w.Permits.Adopt(w.ctx, volume, api.FilesystemUUID(volume))
			w.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(spec(full()))
			requested := func() (bool, int64) {
				config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
				w.must(err)
				return config.Storage.Volumes[0].ReformatRequested, config.Generation
			}
			_, err := w.Permits.Reformat(w.ctx, volume, volume)
			w.must(err)
			if yes, generation := requested(); !yes || generation != 2 {
				t.Errorf("after the operator's word: %v in generation %d, want true in 2", yes, generation)
			}
			end(w)
			if yes, generation := requested(); yes || generation != 3 {
				t.Errorf("after the end: %v in generation %d, want false in 3", yes, generation)
			}
		})
	}
}

// The next server of the volume is told that its predecessor may have left half a
// format, until that is settled.
func TestAnInterruptedFormatReachesTheDocumentAndLeavesIt(t *testing.T) {
	w := newWorld(t)
	w.put(spec(full()))
	r := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume), BlankCheck: &api.BlankCheck{}}
	granted, err := w.Permits.Report(w.ctx, storageServer, volume, r)
	w.must(err)
	r.Phase, r.Permit = api.FormatStarted, granted.Permit
	_, err = w.Permits.Report(w.ctx, storageServer, volume, r)
	w.must(err)
	told := func(want string) {
		t.Helper()
		config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, storageServer)
		w.must(err)
		if got := config.Storage.Volumes[0].FormatInterruptedBy; got != want {
			t.Errorf("the document says interrupted by %q, want %q", got, want)
		}
	}
	told("")
	w.must(w.Store.Update(func(tx *store.Tx) error { return w.Permits.NodeGone(tx, storageServer) }))
	told(storageServer)
	r.Phase = api.FormatFormatted // it was not lost after all
	_, err = w.Permits.Report(w.ctx, storageServer, volume, r)
	w.must(err)
	told("")
}

func TestParametersThatThisVersionRefusesAreShownAndFixed(t *testing.T) {
	w := instantiated(t)
	key := store.DesiredKey(instanceID, 1)
	w.must(w.Store.Update(func(tx *store.Tx) error { // as an older controller may have accepted them
		d, _, err := tx.Desired().Get(key)
		w.must(err)
		d.AdditionalParams, err = w.Store.Seal([]byte(`{"k8s_cluster_installation_param": {}}`))
		w.must(err)
		return tx.Desired().Put(key, d)
	}))
	list, err := w.LCM.Instances.ListInstances(w.ctx)
	w.must(err)
	if len(list) != 1 || !saysOne(list[0].Warnings, "/additionalParams/k8s_cluster_installation_param", `"script_path"`) {
		t.Errorf("instances %+v, want one whose warnings say what is wrong", list)
	}
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.ModifyInfo, api.PhaseStart))
	w.refused(err, api.ProblemConflict, "hitchctl apply", `"script_path"`)
	if i := w.put(spec(nil)); len(i.Nodes) != 3 {
		t.Errorf("nodes %v after the parameters were fixed", i.Nodes)
	}
	w.post(request(api.Terminate, api.PhaseStart))
}

func TestDeleteNeedsAnInstanceThatIsOver(t *testing.T) {
	w := instantiated(t)
	w.refused(w.LCM.Instances.DeleteInstance(w.ctx, instanceID), api.ProblemConflict, "enrolled nodes: ", storageServer, "; TERMINATE it, or revoke them, first")
	op := w.post(heal(api.PhaseEnd, full(), workerServer))
	if op.State == api.Processing {
		w.refused(w.LCM.Instances.DeleteInstance(w.ctx, instanceID), api.ProblemOperationInProgress, "(HEAL)")
	}
	w.post(request(api.Terminate, api.PhaseEnd))
	w.must(w.LCM.Instances.DeleteInstance(w.ctx, instanceID))
	w.refused(w.LCM.Instances.DeleteInstance(w.ctx, instanceID), api.ProblemNotFound)
	if nodes, err := w.LCM.Nodes.ListNodes(w.ctx, "", true); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %+v, %v; want none", nodes, err)
	}
	if ops, err := w.LCM.Operations.ListOperations(w.ctx, ""); err != nil || len(ops) != 0 {
		t.Errorf("operations %+v, %v; want none", ops, err)
	}
	v, err := w.Permits.Get(w.ctx, volume)
	if err != nil || v.NodeID != "" || v.VnfInstanceID != "" {
		t.Errorf("volume %+v, %v; its record stays, without a node", v, err)
	}
	w.put(spec(nil))
}

// The operator's word is on disk; that the documents could not follow at once, as on a
// full disk, must not leave them as they are until another request needs a plan.
func TestAReconciliationThatFailedIsMadeLater(t *testing.T) {
	w := instantiated(t)
	const adopted = "0e7a1e8a-0000-4000-8000-000000000001"
	failing, cancel := context.WithCancel(w.ctx)
	cancel()
	w.Permits.Changed = func(instanceID string) {
		if err := w.LCM.Reconciler.Reconcile(failing, instanceID); !errors.Is(err, context.Canceled) {
			t.Fatalf("the reconciliation ends with %v", err)
		}
	}
	_, err := w.Permits.Adopt(w.ctx, volume, adopted)
	w.must(err)
	if got := w.document(storageServer).Storage.Volumes[0].FilesystemUUID; got == adopted {
		t.Fatal("the document has followed already")
	}
	w.must(w.LCM.Sweep(w.ctx))
	if got := w.document(storageServer).Storage.Volumes[0].FilesystemUUID; got != adopted {
		t.Errorf("after the next sweep the document has the filesystem %s, want %s", got, adopted)
	}
	if w.writes(func() { w.must(w.LCM.Sweep(w.ctx)) }) {
		t.Error("the sweep after that writes")
	}
}
