package instance_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestANewInstanceSaysWhatIsMissing(t *testing.T) {
	w := lifecycletest.New(t)
	instance, created, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.Spec(nil))
	w.Must(err)
	if !created || instance.State != api.NotInstantiated || instance.Kind != api.KubernetesCluster || instance.DesiredVersion != 1 {
		t.Errorf("instance %+v (created %v)", instance, created)
	}
	if want := []string{lifecycletest.ScriptFile}; !slices.Equal(instance.MissingFiles, want) {
		t.Errorf("missing files %v, want %v", instance.MissingFiles, want)
	}
	if strings.Contains(string(instance.AdditionalParams), "s3cr3t") {
		t.Errorf("a secret is shown: %s", instance.AdditionalParams)
	}
	if _, err := w.Enrollment.JoinToken(w.Ctx, lifecycletest.InstanceID); err != nil {
		t.Errorf("no join token: %v", err)
	}
}

func TestTheSameContentAgainWritesNothing(t *testing.T) {
	w := lifecycletest.New(t)
	before := w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	other := lifecycletest.Spec(lifecycletest.FullTopology())
	var reordered map[string]any
	w.Must(json.Unmarshal(other.AdditionalParams, &reordered))
	spaced, err := json.MarshalIndent(reordered, "", "    ")
	w.Must(err)
	other.AdditionalParams = spaced
	other.Topology.Servers[0].ID = strings.ToUpper(lifecycletest.StorageServer)
	for name, again := range map[string]api.InstanceSpec{
		"as it was": lifecycletest.Spec(lifecycletest.FullTopology()), "spaced and ordered otherwise": other, "without the topology": lifecycletest.Spec(nil),
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

// A name and labels are for people: they make no version, and all that belongs to the instance is
// shown with the name.
func TestAnInstanceHasANameAndLabels(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	before := w.Put(lifecycletest.Spec(nil))
	named := lifecycletest.Spec(nil)
	named.Name, named.Labels = new("web 東京"), map[string]string{"env": "prod"}
	if planned, err := w.Lifecycle.Instances.PlanInstance(w.Ctx, lifecycletest.InstanceID, named); err != nil || planned.Instance.Name != "web 東京" || len(planned.Nodes) > 0 {
		t.Errorf("planned %+v: %v", planned, err)
	}
	waits := map[string]<-chan struct{}{}
	for _, key := range []string{notify.Instances, notify.Nodes, notify.Operations, notify.Volumes} {
		changed, stop := w.Hub.Watch(key)
		defer stop()
		waits[key] = changed
	}
	w.Put(named)
	for key, changed := range waits {
		if !lifecycletest.Woken(changed) {
			t.Errorf("who waits for %q was not woken", key)
		}
	}
	after := w.Put(lifecycletest.Spec(nil)) // what the request leaves out stays
	if after.Name != "web 東京" || after.Labels["env"] != "prod" || after.DesiredVersion != before.DesiredVersion {
		t.Errorf("%q with %v, version %d; want version %d", after.Name, after.Labels, after.DesiredVersion, before.DesiredVersion)
	}
	nodes, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, "", false)
	w.Must(err)
	ofOne, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, lifecycletest.InstanceID, false)
	w.Must(err)
	node, err := w.Lifecycle.Nodes.GetNode(w.Ctx, lifecycletest.StorageServer)
	w.Must(err)
	operations, err := w.Lifecycle.Operations.ListOperations(w.Ctx, "")
	w.Must(err)
	operation, err := w.Lifecycle.Operations.GetOperation(w.Ctx, lifecycletest.InstanceID, 1)
	w.Must(err)
	volumes, err := w.Permits.List(w.Ctx)
	w.Must(err)
	volume, err := w.Permits.Get(w.Ctx, volumes[0].ID)
	w.Must(err)
	for what, name := range map[string]string{
		"a list of nodes": nodes[0].VnfInstanceName, "nodes of the instance": ofOne[0].VnfInstanceName, "a node": node.VnfInstanceName,
		"a list of operations": operations[0].VnfInstanceName, "an operation": operation.VnfInstanceName,
		"a list of volumes": volumes[0].VnfInstanceName, "a volume": volume.VnfInstanceName,
	} {
		if name != "web 東京" {
			t.Errorf("%s has the instance's name %q", what, name)
		}
	}
	_, err = w.Lifecycle.Operations.GetOperation(w.Ctx, lifecycletest.InstanceID, 9)
	w.WantRefused(err, api.ProblemNotFound, "web 東京 ("+lifecycletest.InstanceID+") has no operation 9")
	named.Name, named.Labels = new(""), map[string]string{}
	if after = w.Put(named); after.Name != "" || len(after.Labels) > 0 {
		t.Errorf("taken away: %q with %v", after.Name, after.Labels)
	}
	list, err := w.Events.List(event.Query{InstanceID: lifecycletest.InstanceID, Type: api.HappenedInstanceRenamed, Limit: 10})
	w.Must(err)
	var renamed []string
	for _, e := range list.Items {
		renamed = append(renamed, e.From+" -> "+e.To+", "+e.Message)
	}
	if want := []string{" -> web 東京, labels <none> -> env=prod", "web 東京 -> , labels env=prod -> <none>"}; !slices.Equal(renamed, want) {
		t.Errorf("events %q, want %q", renamed, want)
	}
}

func TestAllFaultsOfAPutAreReportedAndNothingIsKept(t *testing.T) {
	w := lifecycletest.New(t)
	bad := lifecycletest.Spec(lifecycletest.FullTopology())
	bad.AdditionalParams = json.RawMessage(`{"k8s_cluster_installation_param": {}}`)
	bad.Topology.Servers[0].ID = "storage"
	bad.VimConnectionInfo, bad.StackID = json.RawMessage(`{}`), lifecycletest.StackTwo
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, bad)
	w.WantRefused(err, api.ProblemInvalid, `"master_node", which is required`,
		"/topology/servers/0/id", "/vimConnectionInfo", "/topology/stackId")
	_, err = w.Lifecycle.Instances.GetInstance(w.Ctx, lifecycletest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound, "no VNF instance "+lifecycletest.InstanceID, "hitchctl apply")
}

func TestATopologyThatTheParametersMakeAmbiguousIsRefused(t *testing.T) {
	w := lifecycletest.New(t)
	twice := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"))
	twice.Servers[1].VolumeIds = nil
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.Spec(twice))
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers/1", "second storage server")

	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	moved := lifecycletest.Spec(nil)
	moved.AdditionalParams = json.RawMessage(strings.ReplaceAll(string(moved.AdditionalParams), "storage_server_CP", "workerNode_CP2"))
	moved.AdditionalParams = json.RawMessage(strings.Replace(string(moved.AdditionalParams), `"workerNode_CP2", "nic_cp_name": "workerNode_CP2"`, `"other", "nic_cp_name": "other"`, 1))
	_, _, err = w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, moved)
	w.WantRefused(err, api.ProblemInvalid, "/additionalParams: worker")
}

func TestAnIDIsForOneKindOfVNFAndAServerForOneInstance(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.RegistrySpec())
	w.WantRefused(err, api.ProblemConflict, "KubernetesCluster", "PrivateRegistry")
	_, _, err = w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.UUID(7, 7), lifecycletest.Spec(lifecycletest.FullTopology()))
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers/0/id", "belongs to VNF instance "+lifecycletest.InstanceID)
}

func TestParametersThatThisVersionRefusesAreShownAndFixed(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	key := store.DesiredKey(lifecycletest.InstanceID, 1)
	w.Must(w.Store.Update(func(tx *store.Tx) error { // as an older controller may have accepted them
		d, _, err := tx.Desired().Get(key)
		w.Must(err)
		d.AdditionalParams, err = w.Store.Seal([]byte(`{"k8s_cluster_installation_param": {}}`))
		w.Must(err)
		return tx.Desired().Put(key, d)
	}))
	list, err := w.Lifecycle.Instances.ListInstances(w.Ctx)
	w.Must(err)
	if len(list) != 1 || !lifecycletest.HasFault(list[0].Warnings, "/additionalParams/k8s_cluster_installation_param", `"script_path"`) {
		t.Errorf("instances %+v, want one whose warnings say what is wrong", list)
	}
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.ModifyInfo, api.PhaseStart))
	w.WantRefused(err, api.ProblemConflict, "hitchctl apply", `"script_path"`)
	if i := w.Put(lifecycletest.Spec(nil)); len(i.Nodes) != 3 {
		t.Errorf("nodes %v after the parameters were fixed", i.Nodes)
	}
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
}

func TestDeleteNeedsAnInstanceThatIsOver(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	w.WantRefused(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID), api.ProblemConflict, "enrolled nodes: ", lifecycletest.StorageServer, "; TERMINATE it, or revoke them, first")
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.FullTopology(), lifecycletest.WorkerServer))
	if op.State == api.Processing {
		w.WantRefused(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID), api.ProblemOperationInProgress, "(HEAL)")
	}
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
	w.Must(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID))
	w.WantRefused(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID), api.ProblemNotFound)
	if nodes, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, "", true); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %+v, %v; want none", nodes, err)
	}
	if ops, err := w.Lifecycle.Operations.ListOperations(w.Ctx, ""); err != nil || len(ops) != 0 {
		t.Errorf("operations %+v, %v; want none", ops, err)
	}
	v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume)
	if err != nil || v.NodeID != "" || v.VnfInstanceID != "" {
		t.Errorf("volume %+v, %v; its record stays, without a node", v, err)
	}
	w.Put(lifecycletest.Spec(nil))
}

func TestNothingIsLeftOfARegistryThatIsTerminatedAndDeleted(t *testing.T) {
	w := lifecycletest.Registry(t)
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.RegistryTopology(lifecycletest.RegistryHealed), lifecycletest.RegistryServer))
	w.Converge(lifecycletest.RegistryHealed)
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseStart))
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
	w.Must(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID))
	w.Must(w.Files.Collect(w.Ctx))
	if names := w.BlobNames(); len(names) > 0 {
		t.Errorf("blobs %v are left", names)
	}
	w.Must(w.Store.View(func(tx *store.Tx) error {
		instances, err := tx.Instances().All()
		w.Must(err)
		desired, err := tx.Desired().All()
		w.Must(err)
		nodes, err := tx.Nodes().All()
		w.Must(err)
		operations, err := tx.Operations().All()
		w.Must(err)
		records, err := tx.Files().All()
		if n := len(instances) + len(desired) + len(nodes) + len(operations) + len(records); n > 0 {
			t.Errorf("%d records are left", n)
		}
		return err
	}))
}
