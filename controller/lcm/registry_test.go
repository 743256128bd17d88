package lcm_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/invariant"
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

// A volume of a registry is one of the store: with its node, permitted once.
func TestARegistrysVolumeIsPermittedToItsServer(t *testing.T) {
	w := lcmtest.New(t)
	spec := lcmtest.RegistrySpec()
	spec.AdditionalParams = json.RawMessage(`{"private_registry_installation_param": {"ssh_cp_name": "CP1", "volume_resource_id": "registry_volume", "mount_to": "/srv/registry"}}`)
	spec.Topology = lcmtest.RegistryTopology(lcmtest.RegistryServer, lcmtest.Volume)
	w.Put(spec)
	end := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology = spec.Topology
	w.Post(end)
	w.Converge(lcmtest.RegistryServer)
	granted, err := w.Permits.Report(w.Ctx, lcmtest.RegistryServer, lcmtest.Volume,
		api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lcmtest.Volume), BlankCheck: &api.BlankCheck{}})
	if err != nil || granted.Permit == "" {
		t.Fatalf("permit %+v, %v", granted, err)
	}
	for _, phase := range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		_, err = w.Permits.Report(w.Ctx, lcmtest.RegistryServer, lcmtest.Volume, api.FormatReport{Phase: phase, Permit: granted.Permit, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lcmtest.Volume)})
		w.Must(err)
	}
	w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.RegistryTopology(lcmtest.RegistryHealed, lcmtest.Volume), lcmtest.RegistryServer))
	c := w.Document(lcmtest.RegistryHealed)
	if c.Storage == nil || len(c.Storage.Volumes) != 1 || c.Storage.Volumes[0].FilesystemUUID != api.FilesystemUUID(lcmtest.Volume) || c.Registry.DataDirectory != "/srv/registry/registry" {
		t.Errorf("document of the healed server %+v, want the kept volume", c)
	}
	if v, err := w.Permits.Get(w.Ctx, lcmtest.Volume); err != nil || v.NodeID != lcmtest.RegistryHealed || v.PermitState != api.PermitFormatted {
		t.Errorf("volume %+v, %v; want it formatted and with the new server", v, err)
	}
	broken, err := invariant.Check(w.Store, w.Blobs.Size)
	w.Must(err)
	if len(broken) > 0 {
		t.Errorf("the records contradict each other: %v", broken)
	}
}
