package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The specification's instantiate body of the registry VNF, word for word.
func TestTheSpecificationsRegistryReachesItsServer(t *testing.T) {
	w := lifecycletest.New(t)
	i := w.Put(w.Verbatim("private-registry.json"))
	if i.Kind != api.PrivateRegistry || len(i.Warnings) > 0 || !slices.Equal(i.MissingFiles, []string{lifecycletest.ImageFile}) {
		t.Errorf("instance %+v, want one without warnings that lacks its image", i)
	}
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, lifecycletest.ImageFile+" is missing")
	w.Upload(lifecycletest.ImageFile, w.SavedImage("first"))
	w.Post(lifecycletest.Request(api.Instantiate, api.PhaseStart))
	end := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology = lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.WorkerServer, "worker"))
	_, err = w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, end)
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers", `connection point "CP1" (registry)`)
	end.Topology = lifecycletest.RegistryTopology(lifecycletest.RegistryServer)
	op := w.Post(end)
	if op.State != api.Processing || len(op.Warnings) > 0 {
		t.Errorf("INSTANTIATE END is %+v", op)
	}
	content := w.SavedImage("first")
	file := w.Instance().Files[0]
	config := w.Document(lifecycletest.RegistryServer)
	w.WantFirst(config, api.RoleRegistry)
	if config.Proxy == nil || *config.Proxy != (api.ProxySection{}) {
		t.Errorf("proxy of the registry: %+v, want an empty section", config.Proxy)
	}
	want := &api.RegistrySection{
		Image: api.RegistryImage{File: &api.FileReference{Sha256: file.Sha256, SizeBytes: int64(len(content))}},
		Port:  5000, DataDirectory: "/home/ubuntu/registry",
	}
	if diff := cmp.Diff(want, config.Registry); diff != "" {
		t.Errorf("registry section (-want +got):\n%s", diff)
	}
	if !w.Lifecycle.Nodes.NodeReads(w.Ctx, lifecycletest.RegistryServer, file.Sha256) || w.Lifecycle.Nodes.NodeReads(w.Ctx, lifecycletest.RegistryServer, strings.Repeat("0", 64)) ||
		w.Lifecycle.Nodes.NodeReads(w.Ctx, lifecycletest.RegistryHealed, file.Sha256) {
		t.Error("a node reads the files that its document names, all of them and no other")
	}
	w.Converge(lifecycletest.RegistryServer)
	if got := w.Operation(op.ID); got.State != api.Completed || w.Instance().State != api.Instantiated {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

func TestAHealedRegistryGetsTheSameDocument(t *testing.T) {
	w := lifecycletest.Registry(t)
	before := w.Document(lifecycletest.RegistryServer)
	w.Post(lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.RegistryServer))
	if w.Node(lifecycletest.RegistryServer).State != api.NodeEnrolled {
		t.Error("the old server was let go before the END")
	}
	op := w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.RegistryTopology(lifecycletest.RegistryHealed), lifecycletest.RegistryServer))
	if n := w.Node(lifecycletest.RegistryServer); n.State != api.NodeRevoked {
		t.Errorf("the old server is %s after the END", n.State)
	}
	after := w.Document(lifecycletest.RegistryHealed)
	before.Generation = after.Generation
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("document of the healed server (-before +after):\n%s", diff)
	}
	w.Converge(lifecycletest.RegistryHealed)
	if got := w.Operation(op.ID); got.State != api.Completed || len(got.Targets) != 1 || got.Targets[0].NodeID != lifecycletest.RegistryHealed {
		t.Errorf("HEAL END is %+v, want COMPLETED with the new server", got)
	}
}
