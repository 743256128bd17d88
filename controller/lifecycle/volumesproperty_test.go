package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// instantiateAll is what most histories are about: all is there, and converges.
func (h *history) instantiateAll(t *rapid.T) {
	whole := lifecycletest.TopologyOf(pool[rapid.IntRange(0, 1).Draw(t, "storage server")], pool[2], pool[4])
	h.posted(t, api.OperationRequest{Operation: api.Instantiate, Topology: whole, Partial: true, DeadlineSeconds: 3600})
	h.convergeAny(t)
	h.convergeAny(t)
}

// healStorage is the START of a HEAL of the storage server in force.
func (h *history) healStorage(t *rapid.T) {
	r := api.OperationRequest{Operation: api.Heal, Phase: api.PhaseStart}
	if top := h.Instance().Topology; top != nil {
		for _, s := range top.Servers {
			if s.Name == "storage" || rapid.IntRange(0, 4).Draw(t, s.ID) == 0 {
				r.VnfcInstanceIds = append(r.VnfcInstanceIds, s.VnfcInstanceID)
			}
		}
	}
	if len(r.VnfcInstanceIds) == 0 {
		t.Skip("no storage server")
	}
	r.DeadlineSeconds = rapid.SampledFrom([]int{60, 3600}).Draw(t, "deadline")
	r.IdempotencyKey = rapid.SampledFrom([]string{"", "", "c"}).Draw(t, "key")
	h.posted(t, r)
	if rapid.Bool().Draw(t, "and converges") {
		h.convergeAny(t)
	}
}

// moveStorage is the START that changes addresses of the storage server in force.
func (h *history) moveStorage(t *rapid.T) {
	h.posted(t, api.OperationRequest{
		Operation: api.ChangeExtConn, Phase: api.PhaseStart, ConnectionPointNames: drawPoints(t),
		DeadlineSeconds: rapid.SampledFrom([]int{60, 3600}).Draw(t, "deadline"),
		IdempotencyKey:  rapid.SampledFrom([]string{"", "", "d"}).Draw(t, "key"),
	})
	if rapid.Bool().Draw(t, "and converges") {
		h.convergeAny(t)
	}
}

func drawPoints(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{nil, {"storage_server_CP"}, {"workerNode_CP2", "other_CP"}, {"workerNode_CP2"}}).Draw(t, "connection points")
}

// remember notes which storage server, of the stack before the operation (without what an
// interrupted START had changed) or after it, a START takes away, or gives other addresses, that leaves something of the stack in force.
func (h *history) remember(op api.Operation, r api.OperationRequest, before *api.Topology) {
	now := h.Instance().Topology
	if r.Operation != api.Heal && r.Operation != api.ChangeExtConn || r.Phase != api.PhaseStart || now == nil {
		return
	}
	named := func(s api.Server) bool {
		if r.Operation == api.ChangeExtConn {
			return s.Name == "storage" && !slices.Equal(r.ConnectionPointNames, []string{"workerNode_CP2"})
		}
		return slices.Contains(r.VnfcInstanceIds, s.VnfcInstanceID)
	}
	if r.Operation == api.Heal && !slices.ContainsFunc(now.Servers, func(s api.Server) bool { return !named(s) && s.Name != noRole }) {
		return
	}
	for _, top := range []*api.Topology{before, now} {
		if top == nil {
			continue
		}
		for _, s := range top.Servers {
			if s.Name == "storage" && named(s) {
				h.healed[op.Sequence] = s
			}
		}
	}
}

// uploadAny is other content of the manifest, or none that is good for anything.
func (h *history) uploadAny(t *rapid.T) {
	content := "no manifest"
	if rapid.IntRange(0, 3).Draw(t, "good") > 0 {
		content = lifecycletest.ManifestOf(rapid.SampledFrom([]string{"pv1", "pv2"}).Draw(t, "name"))
	}
	h.Clock.Advance(time.Second)
	h.Upload(lifecycletest.ManifestFile, content)
}

// serves names what the document of a storage server asks it to serve.
func (h *history) serves(id string) string {
	config, _, err := h.Lifecycle.Nodes.NodeConfig(h.Ctx, id)
	h.Must(err)
	text, err := json.Marshal(config.Storage)
	h.Must(err)
	return fmt.Sprintf("%s in epoch %d: %s", id, config.Epoch, text)
}

// checkWithdrawn: the storage server that a HEAL takes away, or whose addresses CHANGE_EXT_CONN
// changes, has no PersistentVolume of ours.
func (h *history) checkWithdrawn(t *rapid.T, start api.Operation) {
	server, ok := h.healed[start.Sequence]
	if !ok {
		return
	}
	if left := h.cluster.onServer(lifecycletest.AddressesOf(server), func(v *persistentVolume) bool { return v.ours }); len(left) > 0 {
		t.Fatalf("%s START %s of %s completed, and the cluster has %v of it", start.Operation, start.ID, server.ID, left)
	}
}

// checkVolumes: at most one master speaks; what it registers is served; what it withdraws
// a START has asked for; and where it has nothing to say there is a reason.
func (h *history) checkVolumes(t *rapid.T) {
	var speaker *api.Node
	var section *api.PersistentVolumesSection
	var storage, withheld *api.Node
	expected := h.Instance().Nodes
	masters := 0
	for _, n := range h.nodes() {
		config, _, err := h.Lifecycle.Nodes.NodeConfig(h.Ctx, n.ID)
		h.Must(err)
		if config.PersistentVolumes != nil && speaker != nil {
			t.Fatalf("the documents of %s and %s both have PersistentVolumes", speaker.ID, n.ID)
		}
		if config.PersistentVolumes != nil {
			speaker, section = &n, config.PersistentVolumes
		}
		if !slices.Contains(expected, n.ID) {
			continue
		}
		switch n.Role {
		case api.RoleStorage:
			storage = &n
		case api.RoleMaster:
			masters++
		}
		if slices.ContainsFunc(n.Withheld, func(w api.Withheld) bool { return w.Section == "persistentVolumes" }) {
			withheld = &n
		}
	}
	switch {
	case section == nil:
		h.checkSilent(t, storage, withheld, masters)
	case withheld != nil || !slices.Contains(expected, speaker.ID):
		t.Fatalf("%s has %+v, and it is withheld from %+v of %v", speaker.ID, section, withheld, expected)
	case section.State == api.PersistentVolumesAbsent:
		h.checkAsked(t, section)
	case storage == nil || !h.served[h.serves(storage.ID)]:
		t.Fatalf("%s registers what %+v has never said to serve", speaker.ID, storage)
	}
}

// checkSilent wants a reason that holds where there is a master and nothing for it to do.
func (h *history) checkSilent(t *rapid.T, storage, withheld *api.Node, masters int) {
	var inst store.Instance
	h.Must(h.Store.View(func(tx *store.Tx) (err error) {
		inst, _, err = tx.Instances().Get(lifecycletest.InstanceID)
		return err
	}))
	if withheld == nil {
		wanted := inst.CarriedOver.Registered || len(h.Instance().MissingFiles) > 0 || h.namesManifest()
		if masters > 0 && wanted {
			t.Fatalf("no master has PersistentVolumes, and from none they are withheld")
		}
		return
	}
	for _, w := range withheld.Withheld {
		if w.Reason != api.ReasonWaitingForExports || storage == nil || storage.State != api.NodeEnrolled {
			continue
		}
		n, digest := h.Node(storage.ID), storage.Digest
		c := n.Status.Condition(api.ConditionExportsServed)
		if p := h.applied[storage.ID]; p == (applied{n.Generation, digest, h.Store.Epoch()}) && c != nil && c.Status == api.ConditionTrue && n.Ready {
			t.Fatalf("PersistentVolumes wait for %s, which serves: %+v", storage.ID, w)
		}
	}
}

func (h *history) namesManifest() bool {
	return slices.ContainsFunc(h.Instance().Files, func(f api.PackageFile) bool { return f.Path == lifecycletest.ManifestFile }) &&
		slices.Contains(manifestsOf(h.Instance().AdditionalParams), lifecycletest.ManifestFile)
}

func manifestsOf(text json.RawMessage) (paths []string) {
	var p struct {
		Cluster struct {
			Volumes []struct {
				Path string `json:"pv_manifest_file_path"`
			} `json:"pv_registration_params"`
		} `json:"k8s_cluster_installation_param"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		panic(err)
	}
	for _, v := range p.Cluster.Volumes {
		paths = append(paths, v.Path)
	}
	return paths
}

// checkAsked wants a START that takes a storage server away, or its addresses, and that is in progress, or is over
// and awaits its END.
func (h *history) checkAsked(t *rapid.T, section *api.PersistentVolumesSection) {
	var inst store.Instance
	h.Must(h.Store.View(func(tx *store.Tx) (err error) {
		inst, _, err = tx.Instances().Get(lifecycletest.InstanceID)
		return err
	}))
	for _, sequence := range []int64{inst.ProcessingSequence, inst.AwaitingEndSequence} {
		if _, ok := h.healed[sequence]; ok && h.Clock.Now().Before(h.Operation(fmt.Sprint(sequence)).Deadline) {
			return
		}
	}
	t.Fatalf("%+v is in force, and operations %d and %d are no START that withdraws it within its deadline", section, inst.ProcessingSequence, inst.AwaitingEndSequence)
}
