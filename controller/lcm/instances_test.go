package lcm_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestANewInstanceSaysWhatIsMissing(t *testing.T) {
	w := lcmtest.New(t)
	instance, created, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.Spec(nil))
	w.Must(err)
	if !created || instance.State != api.NotInstantiated || instance.Kind != api.KubernetesCluster || instance.DesiredVersion != 1 {
		t.Errorf("instance %+v (created %v)", instance, created)
	}
	if want := []string{lcmtest.ScriptFile}; !slices.Equal(instance.MissingFiles, want) {
		t.Errorf("missing files %v, want %v", instance.MissingFiles, want)
	}
	if strings.Contains(string(instance.AdditionalParams), "s3cr3t") {
		t.Errorf("a secret is shown: %s", instance.AdditionalParams)
	}
	if _, err := w.Enrollment.JoinToken(w.Ctx, lcmtest.InstanceID); err != nil {
		t.Errorf("no join token: %v", err)
	}
}

func TestTheSameContentAgainWritesNothing(t *testing.T) {
	w := lcmtest.New(t)
	before := w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	other := lcmtest.Spec(lcmtest.FullTopology())
	var reordered map[string]any
	w.Must(json.Unmarshal(other.AdditionalParams, &reordered))
	spaced, err := json.MarshalIndent(reordered, "", "    ")
	w.Must(err)
	other.AdditionalParams = spaced
	other.Topology.Servers[0].ID = strings.ToUpper(lcmtest.StorageServer)
	for name, again := range map[string]api.InstanceSpec{
		"as it was": lcmtest.Spec(lcmtest.FullTopology()), "spaced and ordered otherwise": other, "without the topology": lcmtest.Spec(nil),
	} {
		var after api.Instance
		if w.Writes(func() { after = w.Put(again) }) {
			t.Errorf("%s: the store was written", name)
		}
		if after.DesiredVersion != before.DesiredVersion || after.Topology == nil {
			t.Errorf("%s: version %d with topology %v, want %d as before", name, after.DesiredVersion, after.Topology, before.DesiredVersion)
		}
	}
}

func TestOtherParametersReachTheNodesThatTheyConcern(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	changed, stop := w.Hub.Watch(lcmtest.StorageServer)
	defer stop()
	unchanged, stopMaster := w.Hub.Watch(lcmtest.MasterServer)
	defer stopMaster()
	other := lcmtest.Spec(nil)
	other.AdditionalParams = lcmtest.Parameters("10.20.0.0/24")
	if got := w.Put(other).DesiredVersion; got != 2 {
		t.Errorf("desired version %d, want 2", got)
	}
	config, digest, err := w.LCM.Nodes.NodeConfig(w.Ctx, lcmtest.StorageServer)
	w.Must(err)
	if config.Generation != 2 || config.Storage.Exports[0].Client != "10.20.0.0/24" || digest != config.Digest() {
		t.Errorf("document %+v with digest %s", config, digest)
	}
	if n := w.Node(lcmtest.MasterServer); n.Generation != 1 {
		t.Errorf("the master's generation is %d; nothing of its document changed", n.Generation)
	}
	if !lcmtest.Woken(changed) || lcmtest.Woken(unchanged) {
		t.Errorf("poll of the storage server woken: %v, of the master: %v; want the first alone", lcmtest.Woken(changed), lcmtest.Woken(unchanged))
	}
}

func TestAllFaultsOfAPutAreReportedAndNothingIsKept(t *testing.T) {
	w := lcmtest.New(t)
	bad := lcmtest.Spec(lcmtest.FullTopology())
	bad.AdditionalParams = json.RawMessage(`{"k8s_cluster_installation_param": {}}`)
	bad.Topology.Servers[0].ID = "storage"
	bad.VimConnectionInfo, bad.StackID = json.RawMessage(`{}`), lcmtest.StackTwo
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, bad)
	w.WantRefused(err, api.ProblemInvalid, `"master_node", which is required`,
		"/topology/servers/0/id", "/vimConnectionInfo", "/topology/stackId")
	_, err = w.LCM.Instances.GetInstance(w.Ctx, lcmtest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound, "no VNF instance "+lcmtest.InstanceID, "hitchctl apply")
}

func TestATopologyThatTheParametersMakeAmbiguousIsRefused(t *testing.T) {
	w := lcmtest.New(t)
	twice := lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(lcmtest.UUID(1, 2), "storage"))
	twice.Servers[1].VolumeIds = nil
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.Spec(twice))
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers/1", "second storage server")

	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	moved := lcmtest.Spec(nil)
	moved.AdditionalParams = json.RawMessage(strings.ReplaceAll(string(moved.AdditionalParams), "storage_server_CP", "workerNode_CP2"))
	moved.AdditionalParams = json.RawMessage(strings.Replace(string(moved.AdditionalParams), `"workerNode_CP2", "nic_cp_name": "workerNode_CP2"`, `"other", "nic_cp_name": "other"`, 1))
	_, _, err = w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, moved)
	w.WantRefused(err, api.ProblemInvalid, "/additionalParams: worker")
}

func TestAnIDIsForOneKindOfVNFAndAServerForOneInstance(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, lcmtest.RegistrySpec())
	w.WantRefused(err, api.ProblemConflict, "KubernetesCluster", "PrivateRegistry")
	_, _, err = w.LCM.Instances.PutInstance(w.Ctx, lcmtest.UUID(7, 7), lcmtest.Spec(lcmtest.FullTopology()))
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers/0/id", "belongs to VNF instance "+lcmtest.InstanceID)
}

func TestAVolumeIsInOneDocumentAtATime(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	second, theirs := lcmtest.UUID(7, 7), lcmtest.UUID(1, 2)
	_, _, err := w.LCM.Instances.PutInstance(w.Ctx, second, lcmtest.Spec(lcmtest.TopologyOf(lcmtest.Server(theirs, "storage"))))
	w.Must(err)
	n := w.Node(theirs)
	if len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonMultiAttached || !strings.Contains(n.Withheld[0].Message, lcmtest.InstanceID) {
		t.Fatalf("withheld %+v, want the volume that instance %s has", n.Withheld, lcmtest.InstanceID)
	}
	if v, err := w.Permits.Get(w.Ctx, lcmtest.Volume); err != nil || v.NodeID != lcmtest.StorageServer || v.VnfInstanceID != lcmtest.InstanceID {
		t.Errorf("volume %+v, %v; want it with %s", v, err, lcmtest.StorageServer)
	}
	w.Post(lcmtest.Request(api.Terminate, api.PhaseEnd))
	if n := w.Node(theirs); len(n.Withheld) != 0 {
		t.Errorf("the volume is free and still withheld: %+v", n.Withheld)
	}
	if v, err := w.Permits.Get(w.Ctx, lcmtest.Volume); err != nil || v.NodeID != theirs || v.VnfInstanceID != second {
		t.Errorf("volume %+v, %v; want it with %s", v, err, theirs)
	}
}

func TestAnAdoptedFilesystemReachesTheDocument(t *testing.T) {
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	adopted := "0b6ab447-1111-4222-8333-000000000001"
	_, err := w.Permits.Adopt(w.Ctx, lcmtest.Volume, adopted)
	w.Must(err)
	config, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, lcmtest.StorageServer)
	w.Must(err)
	if got := config.Storage.Volumes[0].FilesystemUUID; got != adopted || config.Generation != 2 {
		t.Errorf("filesystem %s in generation %d, want %s in 2", got, config.Generation, adopted)
	}
}

// The document tells the agent at once that it is worth asking, and no longer than
// that is so.
func TestAReformatReachesTheDocumentAndLeavesIt(t *testing.T) {
	for name, end := range map[string]func(*lcmtest.World){
		"when it is used": func(w *lcmtest.World) {
			r := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lcmtest.Volume)}
			granted, err := w.Permits.Report(w.Ctx, lcmtest.StorageServer, lcmtest.Volume, r)
			w.Must(err)
			for _, r.Phase = range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
				r.Permit = granted.Permit
				_, err := w.Permits.Report(w.Ctx, lcmtest.StorageServer, lcmtest.Volume, r)
				w.Must(err)
			}
		},
		"when its node goes": func(w *lcmtest.World) {
			w.Must(w.Store.Update(func(tx *store.Tx) error { return w.Permits.NodeGone(tx, lcmtest.StorageServer) }))
		},
		"when the volume is adopted": func(w *lcmtest.World) {
			_, err := w.Permits.Adopt(w.Ctx, lcmtest.Volume, api.FilesystemUUID(lcmtest.Volume))
			w.Must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.New(t)
			w.Put(lcmtest.Spec(lcmtest.FullTopology()))
			requested := func() (bool, int64) {
				config, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, lcmtest.StorageServer)
				w.Must(err)
				return config.Storage.Volumes[0].ReformatRequested, config.Generation
			}
			_, err := w.Permits.Reformat(w.Ctx, lcmtest.Volume, lcmtest.Volume)
			w.Must(err)
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
	w := lcmtest.New(t)
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	r := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lcmtest.Volume), BlankCheck: &api.BlankCheck{}}
	granted, err := w.Permits.Report(w.Ctx, lcmtest.StorageServer, lcmtest.Volume, r)
	w.Must(err)
	r.Phase, r.Permit = api.FormatStarted, granted.Permit
	_, err = w.Permits.Report(w.Ctx, lcmtest.StorageServer, lcmtest.Volume, r)
	w.Must(err)
	told := func(want string) {
		t.Helper()
		config, _, err := w.LCM.Nodes.NodeConfig(w.Ctx, lcmtest.StorageServer)
		w.Must(err)
		if got := config.Storage.Volumes[0].FormatInterruptedBy; got != want {
			t.Errorf("the document says interrupted by %q, want %q", got, want)
		}
	}
	told("")
	w.Must(w.Store.Update(func(tx *store.Tx) error { return w.Permits.NodeGone(tx, lcmtest.StorageServer) }))
	told(lcmtest.StorageServer)
	r.Phase = api.FormatFormatted // it was not lost after all
	_, err = w.Permits.Report(w.Ctx, lcmtest.StorageServer, lcmtest.Volume, r)
	w.Must(err)
	told("")
}

func TestParametersThatThisVersionRefusesAreShownAndFixed(t *testing.T) {
	w := lcmtest.Instantiated(t)
	key := store.DesiredKey(lcmtest.InstanceID, 1)
	w.Must(w.Store.Update(func(tx *store.Tx) error { // as an older controller may have accepted them
		d, _, err := tx.Desired().Get(key)
		w.Must(err)
		d.AdditionalParams, err = w.Store.Seal([]byte(`{"k8s_cluster_installation_param": {}}`))
		w.Must(err)
		return tx.Desired().Put(key, d)
	}))
	list, err := w.LCM.Instances.ListInstances(w.Ctx)
	w.Must(err)
	if len(list) != 1 || !lcmtest.HasFault(list[0].Warnings, "/additionalParams/k8s_cluster_installation_param", `"script_path"`) {
		t.Errorf("instances %+v, want one whose warnings say what is wrong", list)
	}
	_, err = w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.ModifyInfo, api.PhaseStart))
	w.WantRefused(err, api.ProblemConflict, "hitchctl apply", `"script_path"`)
	if i := w.Put(lcmtest.Spec(nil)); len(i.Nodes) != 3 {
		t.Errorf("nodes %v after the parameters were fixed", i.Nodes)
	}
	w.Post(lcmtest.Request(api.Terminate, api.PhaseStart))
}

func TestDeleteNeedsAnInstanceThatIsOver(t *testing.T) {
	w := lcmtest.Instantiated(t)
	w.WantRefused(w.LCM.Instances.DeleteInstance(w.Ctx, lcmtest.InstanceID), api.ProblemConflict, "enrolled nodes: ", lcmtest.StorageServer, "; TERMINATE it, or revoke them, first")
	op := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.FullTopology(), lcmtest.WorkerServer))
	if op.State == api.Processing {
		w.WantRefused(w.LCM.Instances.DeleteInstance(w.Ctx, lcmtest.InstanceID), api.ProblemOperationInProgress, "(HEAL)")
	}
	w.Post(lcmtest.Request(api.Terminate, api.PhaseEnd))
	w.Must(w.LCM.Instances.DeleteInstance(w.Ctx, lcmtest.InstanceID))
	w.WantRefused(w.LCM.Instances.DeleteInstance(w.Ctx, lcmtest.InstanceID), api.ProblemNotFound)
	if nodes, err := w.LCM.Nodes.ListNodes(w.Ctx, "", true); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %+v, %v; want none", nodes, err)
	}
	if ops, err := w.LCM.Operations.ListOperations(w.Ctx, ""); err != nil || len(ops) != 0 {
		t.Errorf("operations %+v, %v; want none", ops, err)
	}
	v, err := w.Permits.Get(w.Ctx, lcmtest.Volume)
	if err != nil || v.NodeID != "" || v.VnfInstanceID != "" {
		t.Errorf("volume %+v, %v; its record stays, without a node", v, err)
	}
	w.Put(lcmtest.Spec(nil))
}

// The operator's word is on disk; that the documents could not follow at once, as on a
// full disk, must not leave them as they are until another request needs a plan.
func TestAReconciliationThatFailedIsMadeLater(t *testing.T) {
	w := lcmtest.Instantiated(t)
	const adopted = "0e7a1e8a-0000-4000-8000-000000000001"
	failing, cancel := context.WithCancel(w.Ctx)
	cancel()
	w.Permits.Changed = func(instanceID string) {
		if err := w.LCM.Reconciler.Reconcile(failing, instanceID); !errors.Is(err, context.Canceled) {
			t.Fatalf("the reconciliation ends with %v", err)
		}
	}
	_, err := w.Permits.Adopt(w.Ctx, lcmtest.Volume, adopted)
	w.Must(err)
	if got := w.Document(lcmtest.StorageServer).Storage.Volumes[0].FilesystemUUID; got == adopted {
		t.Fatal("the document has followed already")
	}
	w.Must(w.LCM.Sweep(w.Ctx))
	if got := w.Document(lcmtest.StorageServer).Storage.Volumes[0].FilesystemUUID; got != adopted {
		t.Errorf("after the next sweep the document has the filesystem %s, want %s", got, adopted)
	}
	if w.Writes(func() { w.Must(w.LCM.Sweep(w.Ctx)) }) {
		t.Error("the sweep after that writes")
	}
}
