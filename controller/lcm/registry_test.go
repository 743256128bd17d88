package lcm_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/invariant"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

const image = "Files/images/private_registry.tar"

var (
	registryServer = uuid(4, 1)
	registryHealed = uuid(4, 2)
)

// verbatim is the instantiate body of a specification, as a PUT of this API.
func (w *world) verbatim(file string) api.InstanceSpec {
	w.Helper()
	text, err := os.ReadFile("../../shared/params/testdata/" + file)
	w.must(err)
	var body struct {
		AdditionalParams  json.RawMessage `json:"additionalParams"`
		VIMConnectionInfo json.RawMessage `json:"vimConnectionInfo"`
	}
	w.must(json.Unmarshal(text, &body))
	return api.InstanceSpec{AdditionalParams: body.AdditionalParams, VimConnectionInfo: body.VIMConnectionInfo}
}

// savedImage is what `docker save` writes, without layers. note makes one unlike another.
func (w *world) savedImage(note string) string {
	w.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for name, content := range map[string]string{"manifest.json": `[{"RepoTags":["registry:latest"]}]`, "note": note} {
		w.must(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
		_, err := archive.Write([]byte(content))
		w.must(err)
	}
	w.must(archive.Close())
	return out.String()
}

// registryStack has one registry server, of these volumes.
func registryStack(id string, volumes ...string) *api.Topology {
	t := &api.Topology{StackID: stackOne, StackStatus: "CREATE_COMPLETE", Servers: []api.Server{{
		ID: id, Name: "registry", VnfcInstanceID: "vnfc-" + id, VolumeIds: volumes,
		ConnectionPoints: []api.ConnectionPoint{{Name: "CP1", Addresses: []string{"192.168.0.10"}}},
	}}}
	for _, v := range volumes {
		t.Volumes = append(t.Volumes, api.TopologyVolume{ResourceID: "registry_volume", ID: v, SizeBytes: 1 << 30})
	}
	return t
}

// registry is a world with the specification's registry, instantiated.
func registry(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.put(w.verbatim("private-registry.json"))
	w.upload(image, w.savedImage("first"))
	end := request(api.Instantiate, api.PhaseEnd)
	end.Topology = registryStack(registryServer)
	op := w.post(end)
	w.converge(registryServer)
	if got := w.operation(op.ID); got.State != api.Completed {
		t.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
	return w
}

func (w *world) document(nodeID string) api.NodeConfig {
	w.Helper()
	config, digest, err := w.LCM.Nodes.NodeConfig(w.ctx, nodeID)
	w.must(err)
	if digest != config.Digest() {
		w.Errorf("the digest of %s is %s, its document's %s", nodeID, digest, config.Digest())
	}
	return config
}

// The specification's instantiate body of the registry VNF, word for word.
func TestTheSpecificationsRegistryReachesItsServer(t *testing.T) {
	w := newWorld(t)
	i := w.put(w.verbatim("private-registry.json"))
	if i.Kind != api.PrivateRegistry || len(i.Warnings) > 0 || !slices.Equal(i.MissingFiles, []string{image}) {
		t.Errorf("instance %+v, want one without warnings that lacks its image", i)
	}
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, request(api.Instantiate, api.PhaseStart))
	w.refused(err, api.ProblemFilesMissing, image+" is missing")
	w.upload(image, w.savedImage("first"))
	w.post(request(api.Instantiate, api.PhaseStart))
	end := request(api.Instantiate, api.PhaseEnd)
	end.Topology = topologyOf(server(workerServer, "worker"))
	_, err = w.LCM.Operations.PostOperation(w.ctx, instanceID, end)
	w.refused(err, api.ProblemInvalid, "/topology/servers", `connection point "CP1" (registry)`)
	end.Topology = registryStack(registryServer)
	op := w.post(end)
	if op.State != api.Processing || len(op.Warnings) > 0 {
		t.Errorf("INSTANTIATE END is %+v", op)
	}
	content := w.savedImage("first")
	file := w.instance().Files[0]
	config := w.document(registryServer)
	w.isFirst(config, api.RoleRegistry)
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
	if !w.LCM.Nodes.NodeReads(w.ctx, registryServer, file.Sha256) || w.LCM.Nodes.NodeReads(w.ctx, registryServer, strings.Repeat("0", 64)) ||
		w.LCM.Nodes.NodeReads(w.ctx, registryHealed, file.Sha256) {
		t.Error("a node reads the files that its document names, all of them and no other")
	}
	w.converge(registryServer)
	if got := w.operation(op.ID); got.State != api.Completed || w.instance().State != api.Instantiated {
		t.Errorf("INSTANTIATE END is %+v, want COMPLETED", got)
	}
}

func TestAHealedRegistryGetsTheSameDocument(t *testing.T) {
	w := registry(t)
	before := w.document(registryServer)
	w.post(heal(api.PhaseStart, nil, registryServer))
	if w.node(registryServer).State != api.NodeEnrolled {
		t.Error("the old server was let go before the END")
	}
	op := w.post(heal(api.PhaseEnd, registryStack(registryHealed), registryServer))
	if n := w.node(registryServer); n.State != api.NodeRevoked {
		t.Errorf("the old server is %s after the END", n.State)
	}
	after := w.document(registryHealed)
	before.Generation = after.Generation
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("document of the healed server (-before +after):\n%s", diff)
	}
	w.converge(registryHealed)
	if got := w.operation(op.ID); got.State != api.Completed || len(got.Targets) != 1 || got.Targets[0].NodeID != registryHealed {
		t.Errorf("HEAL END is %+v, want COMPLETED with the new server", got)
	}
}

func TestWhatIsNotDoneWithARegistry(t *testing.T) {
	empty := registryStack(registryServer)
	empty.Servers = nil
	for name, c := range map[string]struct {
		r             api.OperationRequest
		pointer, says string
	}{
		"scale it out":                   {scale(api.ScaleOut, api.PhaseEnd, nil), "/operation", "cannot be scaled"},
		"heal who is not known":          {heal(api.PhaseStart, nil, registryServer, workerServer), "/vnfcInstanceIds/1", "no server has the VNFC instance"},
		"heal it away":                   {heal(api.PhaseEnd, empty, registryServer), "/topology/servers", `connection point "CP1" (registry)`},
		"heal it into two":               {heal(api.PhaseEnd, &api.Topology{Servers: slices.Concat(registryStack(registryServer).Servers, registryStack(registryHealed).Servers)}), "/topology/servers/1", "second registry server"},
		"heal it without an observation": {heal(api.PhaseEnd, nil), "/topology", "nothing has changed since"},
		"heal it with masters only":      {heal(api.PhaseEnd, full()), "/topology/servers", "holds no server with a role"},
	} {
		t.Run(name, func(t *testing.T) {
			w := registry(t)
			_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, c.r)
			if faults := w.faults(err); len(faults) != 1 || faults[0].Pointer != c.pointer || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("faults %v, want one at %s that says %q", faults, c.pointer, c.says)
			}
		})
	}
}

// A volume of a registry is one of the store: with its node, permitted once.
func TestARegistrysVolumeIsPermittedToItsServer(t *testing.T) {
	w := newWorld(t)
	spec := registrySpec()
	spec.AdditionalParams = json.RawMessage(`{"private_registry_installation_param": {"ssh_cp_name": "CP1", "volume_resource_id": "registry_volume", "mount_to": "/srv/registry"}}`)
	spec.Topology = registryStack(registryServer, volume)
	w.put(spec)
	end := request(api.Instantiate, api.PhaseEnd)
	end.Topology = spec.Topology
	w.post(end)
	w.converge(registryServer)
	granted, err := w.Permits.Report(w.ctx, registryServer, volume,
		api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume), BlankCheck: &api.BlankCheck{}})
	if err != nil || granted.Permit == "" {
		t.Fatalf("permit %+v, %v", granted, err)
	}
	for _, phase := range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		_, err = w.Permits.Report(w.ctx, registryServer, volume, api.FormatReport{Phase: phase, Permit: granted.Permit, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume)})
		w.must(err)
	}
	w.post(heal(api.PhaseEnd, registryStack(registryHealed, volume), registryServer))
	c := w.document(registryHealed)
	if c.Storage == nil || len(c.Storage.Volumes) != 1 || c.Storage.Volumes[0].FilesystemUUID != api.FilesystemUUID(volume) || c.Registry.DataDirectory != "/srv/registry/registry" {
		t.Errorf("document of the healed server %+v, want the kept volume", c)
	}
	if v, err := w.Permits.Get(w.ctx, volume); err != nil || v.NodeID != registryHealed || v.PermitState != api.PermitFormatted {
		t.Errorf("volume %+v, %v; want it formatted and with the new server", v, err)
	}
	broken, err := invariant.Check(w.Store, w.Blobs.Size)
	w.must(err)
	if len(broken) > 0 {
		t.Errorf("the records contradict each other: %v", broken)
	}
}

func TestNothingIsLeftOfARegistryThatIsTerminatedAndDeleted(t *testing.T) {
	w := registry(t)
	w.post(heal(api.PhaseEnd, registryStack(registryHealed), registryServer))
	w.converge(registryHealed)
	w.post(request(api.Terminate, api.PhaseStart))
	w.post(request(api.Terminate, api.PhaseEnd))
	w.must(w.LCM.Instances.DeleteInstance(w.ctx, instanceID))
	w.must(w.Files.Collect(w.ctx))
	if names := w.blobNames(); len(names) > 0 {
		t.Errorf("blobs %v are left", names)
	}
	w.must(w.Store.View(func(tx *store.Tx) error {
		instances, err := tx.Instances().All()
		w.must(err)
		desired, err := tx.Desired().All()
		w.must(err)
		nodes, err := tx.Nodes().All()
		w.must(err)
		operations, err := tx.Operations().All()
		w.must(err)
		records, err := tx.Files().All()
		if n := len(instances) + len(desired) + len(nodes) + len(operations) + len(records); n > 0 {
			t.Errorf("%d records are left", n)
		}
		return err
	}))
}
