package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The specification's instantiate body of the registry VNF, word for word.
func TestTheSpecificationsRegistryReachesItsServer(t *testing.T) {
	w := lcmtest.New(t)
	i := w.Put(w.Verbatim("private-registry.json"))
	if i.Kind != api.PrivateRegistry || len(i.Warnings) > 0 || !slices.Equal(i.MissingFiles, []string{lcmtest.ImageFile}) {
		t.Errorf("instance %+v, want one without warnings that lacks its image", i)
	}
	_, err := w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, lcmtest.Request(api.Instantiate, api.PhaseStart))
	w.WantRefused(err, api.ProblemFilesMissing, lcmtest.ImageFile+" is missing")
	w.Upload(lcmtest.ImageFile, w.SavedImage("first"))
	w.Post(lcmtest.Request(api.Instantiate, api.PhaseStart))
	end := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology = lcmtest.TopologyOf(lcmtest.Server(lcmtest.WorkerServer, "worker"))
	_, err = w.LCM.Operations.PostOperation(w.Ctx, lcmtest.InstanceID, end)
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers", `connection point "CP1" (registry)`)
	end.Topology = lcmtest.RegistryTopology(lcmtest.RegistryServer)
	op := w.Post(end)
	if op.State != api.Processing || len(op.Warnings) > 0 {
		t.Errorf("INSTANTIATE END is %+v", op)
	}
	content := w.SavedImage("first")
	file := w.Instance().Files[0]
	config := w.Document(lcmtest.RegistryServer)
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
	if !w.LCM.Nodes.NodeReads(w.Ctx, lcmtest.RegistryServer, file.Sha256) || w.LCM.Nodes.NodeReads(w.Ctx, lcmtest.RegistryServer, strings.Repeat("0", 64)) ||
		w.LCM.Nodes.NodeReads(w.Ctx, lcmtest.RegistryHealed, file.Sha256) {
		t.Error("a node reads the files that its document names, all of them and no other")
	}
	w.Converge(lcmtest.RegistryServer)
	if got := w.Operation(op.ID); got.State != api.Completed || w.Instance().State != api.Instantiated {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

func TestAHealedRegistryGetsTheSameDocument(t *testing.T) {
	w := lcmtest.Registry(t)
	before := w.Document(lcmtest.RegistryServer)
	w.Post(lcmtest.Heal(api.PhaseStart, nil, lcmtest.RegistryServer))
	if w.Node(lcmtest.RegistryServer).State != api.NodeEnrolled {
		t.Error("the old server was let go before the END")
	}
	op := w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.RegistryTopology(lcmtest.RegistryHealed), lcmtest.RegistryServer))
	if n := w.Node(lcmtest.RegistryServer); n.State != api.NodeRevoked {
		t.Errorf("the old server is %s after the END", n.State)
	}
	after := w.Document(lcmtest.RegistryHealed)
	before.Generation = after.Generation
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("document of the healed server (-before +after):\n%s", diff)
	}
	w.Converge(lcmtest.RegistryHealed)
	if got := w.Operation(op.ID); got.State != api.Completed || len(got.Targets) != 1 || got.Targets[0].NodeID != lcmtest.RegistryHealed {
		t.Errorf("HEAL END is %+v, want COMPLETED with the new server", got)
	}
}
